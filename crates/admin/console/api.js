// Questions to the server this page came from.

/** What went wrong: the status (0 when nobody answered) and what the server said. */
export class Failure extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
  /** The server does not have this endpoint; one that has it says what it did not find. */
  get isMissing() { return this.status === 404 && !this.message.startsWith('Error:') || this.status === 405; }
}

const TIMEOUT_MS = 15000;

async function ask(path, options) {
  const stop = AbortSignal.timeout(TIMEOUT_MS);
  const signal = options?.signal ? AbortSignal.any([stop, options.signal]) : stop;
  let answer, text;
  try {
    answer = await fetch(path, { credentials: 'same-origin', cache: 'no-store', ...options, signal });
    text = await answer.text();
  } catch (error) {
    throw new Failure(0, error.name === 'TimeoutError' ? `no answer within ${TIMEOUT_MS / 1000} s` : 'no answer');
  }
  if (!answer.ok) throw new Failure(answer.status, text.trim() || `status ${answer.status}`);
  return text;
}

/** The JSON at a path under `api/admin/`; parameters that are empty are left out. */
export async function get(path, params, signal) {
  const asked = new URLSearchParams(Object.entries(params ?? {}).filter(([, value]) => value !== '' && value !== null && value !== undefined));
  return JSON.parse(await ask(`api/admin/${path}${asked.size ? `?${asked}` : ''}`, { signal }));
}

/** Sends JSON. The answer may be text. */
export async function send(method, path, body) {
  return ask(`api/admin/${path}`, { method, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
}
