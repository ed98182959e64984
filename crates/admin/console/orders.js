// Orders: given after a look at how much they concern, taken back by Undo; and the view of those in force.

import { get, send } from './api.js';
import { button, count, draw, facts, h, many, moment, table } from './dom.js';

/** What can be ordered. `grace` seconds pass before what cannot be undone is sent. */
const KINDS = {
  suspend: { path: 'suspend/v1', verb: 'Suspend', done: 'Suspended', lasts: '1h', says: 'It waits, and so does what comes for it. No attempt is counted.' },
  hold: { path: 'hold/v1', verb: 'Hold', done: 'Held', lasts: '', says: 'It leaves its queue and stands aside until released. It does not expire.' },
  flush: { path: 'flush/v1', verb: 'Try now', done: 'Made due', grace: 5, says: 'What waits for a retry is due now. There is no way back once it is sent, so the order is given only after a few seconds.' },
  bounce: { path: 'bounce/v1', verb: 'Bounce', done: 'Bounced', lasts: '5m', grace: 10, danger: true, says: 'It ends with 551 5.7.1; senders may be told. A bounce that was carried out cannot be undone, so the order is given only after ten seconds.' },
  ready: { path: 'suspend-ready-q/v1', verb: 'Suspend', done: 'Suspended', lasts: '1h', says: 'It sends nothing; its messages go to other sources of their pools, or wait.' },
};
const LASTS = [['0s', 'only what is there now'], ['5m', '5 minutes'], ['1h', 'one hour'], ['6h', '6 hours'], ['1d', 'one day'], ['7d', 'a week'], ['', 'until it is taken back']];
const FOREVER_DAYS = 3650;

/** An order's target: `of` are the criteria of the order, `asks` the question that counts it, `name` what it is called. */
export const target = {
  queue: name => ({ of: { queue_names: [name] }, asks: { by: 'queue', name }, name: `queue ${name}` }),
  ready: name => ({ of: { name }, asks: { by: 'ready', name }, name: `ready queue ${name}`, isReady: true }),
  message: id => ({ of: { messages: [id] }, name: `message ${id}`, isOne: true }),
};

const dialog = () => document.getElementById('dialog');
/** Counts dialogs: what comes late for one must not be drawn into the next. */
let opening = 0;

/** Asks what is to be done, with a reason, and does it. */
export async function act(to, chosen, again) {
  const kinds = to.isReady ? ['ready'] : to.isOne ? ['hold', 'flush', 'bounce'] : ['suspend', 'hold', 'flush', 'bounce'];
  const state = { kind: chosen ?? kinds[0], concern: to.isOne ? { count: 1, queues: 1 } : null, trouble: '' };
  const box = dialog(), mine = ++opening;
  const back = document.activeElement;
  const show = () => { if (mine === opening && (box.open || !state.shown)) draw(box, form()); state.shown = true; };
  const concern = () => {
    if (!state.concern) return state.uncounted ? `How many messages that are could not be found out: ${state.uncounted}` : 'Counting …';
    return to.isOne ? 'It concerns this message.' : `It concerns ${many(state.concern.count, 'message')} now, in ${many(state.concern.queues, 'queue')}.`;
  };
  const choose = kind => () => { state.kind = kind; show(); };
  const form = () => {
    const kind = KINDS[state.kind];
    const number = to.isOne ? '' : state.concern ? ` ${many(state.concern.count, 'message')}` : ' …';
    // The others would end as soon as they begin.
    const lasts = state.kind === 'bounce' ? LASTS : LASTS.slice(1);
    return h('form', { key: mine, onsubmit: submit },
      h('h2', { id: 'dialog-title' }, `${kind.verb}: ${to.name}`),
      kinds.length > 1 && h('fieldset', { 'aria-label': 'What is to be done' }, kinds.map(name => h('label', null,
        h('input', { type: 'radio', name: 'kind', value: name, checked: name === state.kind, onchange: choose(name) }), ` ${KINDS[name].verb}`))),
      h('p', { class: 'concern', role: 'status' }, h('b', null, concern()), ' ', kind.says),
      h('label', { for: 'reason' }, 'Reason (it is logged)'), h('input', { type: 'text', id: 'reason', name: 'reason', required: true, maxlength: 300, autocomplete: 'off' }),
      kind.lasts !== undefined && h('p', null, h('label', { for: 'lasts' }, 'For how long'), h('select', { id: 'lasts', name: 'lasts', key: state.kind, value: kind.lasts },
        lasts.map(([value, text]) => h('option', { value, selected: value === kind.lasts }, text)))),
      state.trouble && h('p', { class: 'bad', role: 'alert' }, state.trouble),
      h('div', { class: 'ends' }, button('Cancel', () => box.close()),
        h('button', { type: 'submit', class: kind.danger ? 'danger' : 'main', disabled: state.isSending || !(state.concern || state.uncounted) }, `${kind.verb}${number}`)));
  };
  async function submit(event) {
    event.preventDefault();
    const given = new FormData(event.target);
    const reason = given.get('reason').trim();
    if (!reason || state.isSending) return;
    const kind = KINDS[state.kind];
    const body = { ...to.of, reason, ...lasting(kind.lasts === undefined ? undefined : given.get('lasts')) };
    const order = { kind, body, to, what: to.isOne ? to.name : `${state.concern ? many(state.concern.count, 'message') : 'the messages'} of ${to.name}`, again };
    if (kind.grace) {
      box.close();
      return later(order);
    }
    state.isSending = true;
    show();
    try {
      const toast = await give(order);
      if (mine === opening) box.close();
      toast.focus();
    } catch (error) {
      state.isSending = false;
      state.trouble = undone(error);
      show();
    }
  }
  box.onclose = () => {
    draw(box, []);
    // Undo is next when an order was given.
    if (back?.isConnected && !document.activeElement?.closest('#toasts')) back.focus();
  };
  show();
  box.showModal();
  box.querySelector('#reason').focus();
  if (to.isOne) return;
  try {
    state.concern = (await get('queues/v1', { limit: 1, ...to.asks })).total;
  } catch (error) {
    state.uncounted = error.message;
  }
  show();
}

/** What can be said of an order that was not answered as it should be. */
const undone = error => error.status ? `It was not done: ${error.message}` : `It is not known whether it was done (${error.message}): look at the orders in force.`;

function lasting(duration) {
  if (duration === undefined) return {};
  return { duration: duration === '' ? `${FOREVER_DAYS}d` : duration };
}

/** Gives an order and says so, with a way back. */
async function give({ kind, body, to, again }) {
  const { id, messages, replaced } = JSON.parse(await send('POST', kind.path, body));
  again?.();
  // One of the same criteria that was in force comes back: given again, it takes its place without a gap.
  const back = () => replaced && !kind.danger && Date.parse(replaced.expires) > Date.now()
    ? restore(kind.path, { ...to.of, ...asItWas(replaced, to.isReady), replaces: id }, to.name, again)
    : withdraw(kind.path, id, to.name, again);
  const what = to.isOne ? to.name : `${many(messages, 'message')} of ${to.name}`;
  const rest = kind.danger && body.duration !== '0s' ? ' The order is about what comes, too, until it ends.' : '';
  const instead = replaced ? ` It took the place of an order given before: ${replaced.reason}.` : '';
  return toast(`${kind.done}: ${what}.${rest}${instead}`, kind.path === KINDS.flush.path ? [] : [[kind.danger ? 'Stop the order' : 'Undo', back]]);
}

/** What of an order is not its criteria; of ready queues nothing is logged. */
const asItWas = ({ reason, expires, survives_restart, suppress_logging }, isReady) =>
  ({ reason, expires, survives_restart, ...(isReady ? {} : { suppress_logging: !!suppress_logging }) });

/** Of an order that was not given: nothing is when somebody else was faster. */
const notAgain = error => toast(error.status === 409 ? `Nothing was changed: ${error.message}` : `Not given again: ${error.message}`, [], true);

/** Gives an order again that was in force before. */
async function restore(path, body, name, again) {
  try {
    await send('POST', path, body);
    // What is said is what is shown.
    await again?.();
    const one = toast(`In force again: ${body.reason} (${name}).`, []);
    if (document.activeElement === document.body) one.focus();
  } catch (error) {
    notAgain(error);
    again?.();
  }
}

/** Takes an order back. */
async function withdraw(path, id, name, again, redo) {
  try {
    await send('DELETE', path, { id });
    await again?.();
    const one = toast(`Taken back: ${name}.`, redo ? [['Undo', redo]] : []);
    // Undo, which had the focus, is gone.
    if (document.activeElement === document.body) one.focus();
  } catch (error) {
    toast(error.status === 404 ? `Nothing was changed: the order is not in force any more (${name}): it is over, or somebody has taken it back or given another one.` : `Not taken back: ${error.message}`, [], true);
    again?.();
  }
}

/** Gives an order when some seconds are over and nobody changed his mind. */
function later(order) {
  const { kind, to, what } = order;
  const until = Date.now() + kind.grace * 1000;
  const one = toast('', []);
  const left = () => Math.max(0, Math.ceil((until - Date.now()) / 1000));
  const stop = () => { clearInterval(ticking); pending.delete(one); };
  const undo = () => { stop(); one.say(`Nothing was done to ${to.name}.`, []); one.fade(); };
  let isSent = false;
  const now = async () => {
    if (isSent) return;
    isSent = true;
    clearInterval(ticking);
    // It stays among what is pending until it is answered; there is no way back from here.
    one.say(`${kind.verb}: ${what}: sending …`, []);
    try {
      const next = await give(order);
      if (one.has(document.activeElement)) next.focus();
      pending.delete(one);
      one.end();
    } catch (error) {
      pending.delete(one);
      one.say(undone(error), [], true);
      order.again?.();
    }
  };
  const show = () => one.say([h('b', null, `${kind.verb}: ${what}`), ' in ', h('span', { class: 'when' }, `${left()} s`), '. Nothing is done yet; closing this page undoes it.',
    h('progress', { max: kind.grace * 1000, value: kind.grace * 1000 - (until - Date.now()), 'aria-hidden': 'true', key: left() })], [['Undo', undo], ['Do it now', now]]);
  // A page that slept must not wake up and do it.
  let seen = Date.now();
  const tick = () => {
    const late = Date.now() - seen > SLEPT_MS;
    seen = Date.now();
    if (late) return undo();
    return left() ? show() : now();
  };
  const ticking = setInterval(tick, 250);
  addEventListener('pagehide', () => { if (!isSent) stop(); }, { once: true });
  pending.add(one);
  show();
  one.focus();
}

const pending = new Set();
/** A tick that comes so late comes after a sleep; browsers let those of hidden pages wait a second. */
const SLEPT_MS = 3000;
addEventListener('beforeunload', event => { if (pending.size) event.preventDefault(); });

/** Words at the foot of the page, until they are put away or others come. */
function toast(text, choices, isBad) {
  const place = document.getElementById('toasts');
  const node = document.createElement('div');
  const one = {
    say(words, buttons, bad) {
      draw(node, [h('div', { role: bad ? 'alert' : 'status', class: bad ? 'bad' : null }, words),
        h('div', { class: 'ends' }, buttons.map(([name, run]) => button(name, run, { key: name })), pending.has(one) ? null : button('Dismiss', one.end, { key: 'Dismiss' }))]);
    },
    end() { node.remove(); },
    fade() { setTimeout(one.end, FADE_MS); },
    focus() { node.querySelector('button')?.focus(); },
    has: other => node.contains(other),
  };
  node.className = 'toast';
  place.append(node);
  const old = [...place.children].filter(other => ![...pending].some(kept => kept.has(other.firstChild)));
  old.slice(0, -TOASTS_MAX).forEach(other => other.remove());
  one.say(text, choices.map(([name, run]) => [name, () => { one.end(); run(); }]), isBad);
  return one;
}
const TOASTS_MAX = 3, FADE_MS = 6000;

const LISTS = [['suspend/v1', 'Suspension', 'Lift'], ['suspend-ready-q/v1', 'Suspension of a ready queue', 'Lift'], ['hold/v1', 'Hold', 'Release'],
  ['bounce/v1', 'Bounce', 'Stop'], ['flush/v1', 'Flush', 'Stop'], ['rebind/v1', 'Rebinding', 'Stop'], ['xfer/v1', 'Transfer', 'Stop']];

/** Orders in force of these paths (all without), each with what it is. */
export async function inForce(signal, paths) {
  const wanted = LISTS.filter(([path]) => !paths || paths.includes(path));
  const all = await Promise.all(wanted.map(([path]) => get(path, null, signal)));
  return all.flatMap((list, at) => list.map(order => ({ ...order, path: wanted[at][0], kind: wanted[at][1], verb: wanted[at][2] })));
}

const criteria = order => {
  const told = ['name', 'campaign', 'tenant', 'domain', 'routing_domain', 'target'].filter(name => order[name] !== undefined).map(name => `${name} ${order[name]}`);
  const lists = [['queue', order.queue_names], ['message', order.messages]].filter(([, list]) => list?.length)
    .map(([name, list]) => list.length > 3 ? `${many(list.length, name)}, such as ${list[0]}` : `${name} ${list.join(', ')}`);
  return [...told, ...lists].join(', ') || 'everything';
};

/** Asks once more, then takes an order back; a suspension or hold can be given again. */
function lift(order, again) {
  opening++;
  const box = dialog(), back = document.activeElement, name = criteria(order);
  const { campaign, tenant, domain, routing_domain, queue_names, messages } = order, isReady = order.name !== undefined;
  // Not in the place of one that somebody has given since.
  const body = { ...(isReady ? { name: order.name } : { campaign, tenant, domain, routing_domain, queue_names, messages }), ...asItWas(order, isReady), replaces: 'none' };
  const canRedo = ['suspend/v1', 'suspend-ready-q/v1', 'hold/v1'].includes(order.path);
  const redo = async () => {
    try {
      await send('POST', order.path, body);
      await again?.();
      toast(`In force again: ${name}.`, []);
    } catch (error) {
      notAgain(error);
      again?.();
    }
  };
  const goes = order.path === 'hold/v1' ? `${many(order.pending, 'message')} go back to their queues.`
    : order.path === 'bounce/v1' ? `${many(order.pending, 'message')} whose end is not written yet come back; ${count(order.total_bounced)} were taken.` : 'What waits for it goes on.';
  box.onclose = () => { draw(box, []); if (back?.isConnected && !document.activeElement?.closest('#toasts')) back.focus(); };
  draw(box, h('form', { key: order.id, onsubmit: async event => { event.preventDefault(); await withdraw(order.path, order.id, name, again, canRedo && redo); box.close(); document.querySelector('#toasts > :last-child button')?.focus(); } },
    h('h2', { id: 'dialog-title' }, `${order.verb}: ${order.kind.toLowerCase()} of ${name}`), h('p', { class: 'concern' }, goes), facts([['Reason', order.reason]]),
    h('div', { class: 'ends' }, button('Cancel', () => box.close()), h('button', { type: 'submit', class: 'main' }, order.verb))));
  box.showModal();
}

/** A table of orders. */
export const list = (all, again) => table('Orders in force', [{ name: 'Order' }, { name: 'Messages', num: 1 }, { name: 'Ends', when: 1, opt: 1 }, { name: '' }], all.map(order => ({
  key: order.id,
  cells: [[h('b', null, order.kind), ` of ${criteria(order)}`, h('div', { class: 'dim' }, order.reason)],
    order.total_bounced === undefined ? '–' : [count(order.total_bounced), order.pending ? h('span', { class: 'dim' }, ` (${count(order.pending)} left)`) : null],
    Date.parse(order.expires) > Date.now() + 3e10 ? 'when taken back' : moment(order.expires),
    button(`${order.verb}…`, () => lift(order, again), { 'aria-label': `${order.verb} ${order.kind.toLowerCase()} of ${criteria(order)}` })],
})));

export const orders = {
  title: () => 'Orders in force',
  load: (_, signal) => inForce(signal),
  show: ({ data, again }) => h('section', { class: 'card' }, data.length ? list(data, again) : h('p', { class: 'dim' }, 'None. Orders are given from the views of queues and messages.')),
};
