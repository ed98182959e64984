// Nodes from descriptions, brought up to date in place: who has the focus keeps it, what is typed stays. Text becomes text nodes
// and attributes, never markup.


/** Describes an element: its tag, what it has (`key` tells siblings apart, `on...` are handlers, `share` is the width of a bar), and what is in it. */
export const h = (tag, has, ...kids) => ({ tag, has: has ?? {}, kids: kids.flat(Infinity).filter(kid => kid !== null && kid !== undefined && kid !== false) });

/** Makes the children of a node be as described. */
export function draw(node, kids) {
  const focused = document.activeElement;
  place(node, kids);
  // One that moved lost it.
  if (focused !== document.activeElement && focused?.isConnected && focused !== document.body) focused.focus({ preventScroll: true });
}

function place(node, kids) {
  const wanted = (Array.isArray(kids) ? kids : [kids]).flat(Infinity).filter(kid => kid !== null && kid !== undefined && kid !== false);
  const keyed = new Map();
  for (const child of node.childNodes) if (child.described?.has.key !== undefined) keyed.set(child.described.has.key, child);
  let at = node.firstChild;
  for (const kid of wanted) {
    let found = kid.has?.key === undefined ? at : keyed.get(kid.has.key);
    if (found && !fits(found, kid)) found = null;
    if (!found) {
      node.insertBefore(make(kid), at);
      continue;
    }
    if (found === at) at = at.nextSibling;
    else node.insertBefore(found, at);
    update(found, kid);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

const fits = (node, kid) => typeof kid === 'object'
  ? node.described?.tag === kid.tag && node.described.has.key === kid.has.key
  : node.nodeType === Node.TEXT_NODE;

function make(kid) {
  if (typeof kid !== 'object') return document.createTextNode(kid);
  const svg = kid.tag === 'svg' || kid.tag === 'path';
  const node = svg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  node.described = { tag: kid.tag, has: {} };
  update(node, kid);
  if ('value' in kid.has) node.value = kid.has.value;
  if (kid.has.checked) node.checked = true;
  return node;
}

function update(node, kid) {
  if (typeof kid !== 'object') {
    if (node.data !== String(kid)) node.data = kid;
    return;
  }
  const before = node.described.has;
  for (const name of Object.keys(before)) if (!(name in kid.has)) set(node, name, null);
  for (const [name, value] of Object.entries(kid.has)) if (before[name] !== value) set(node, name, value);
  node.described.has = kid.has;
  place(node, kid.kids);
}

function set(node, name, value) {
  if (name === 'key' || name === 'value' || name === 'checked') return;
  if (name.startsWith('on')) node[name] = value;
  else if (name === 'share') node.style.setProperty('--share', value);
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? '' : value);
}

/** A table: its caption, its columns ({ name, num, opt }), and rows ({ key, cells }), the first cell of which names it. */
export const table = (caption, columns, rows) => h('div', { class: 'scroll', role: 'region', 'aria-label': caption, tabindex: 0 },
  h('table', null, h('caption', null, caption),
    h('thead', null, h('tr', null, columns.map(column => h('th', { scope: 'col', class: kind(column) }, column.name)))),
    h('tbody', null, rows.map(({ key, cells }) => h('tr', { key }, cells.map((cell, at) =>
      h(at ? 'td' : 'th', at ? { class: kind(columns[at]) } : { scope: 'row' }, cell)))))));

const kind = column => [column.num && 'num', column.opt && 'opt', column.when && 'when'].filter(Boolean).join(' ') || null;

/** Facts by name; those that are nothing are left out. */
export const facts = pairs => h('dl', { class: 'facts' }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
  .map(([name, value]) => [h('dt', { key: `t${name}` }, name), h('dd', { key: `d${name}` }, value)]));

const SVG = 'http://www.w3.org/2000/svg';
const whole = new Intl.NumberFormat('en');
export const count = number => number === null || number === undefined ? '–' : whole.format(number);
export const many = (number, what) => `${count(number)} ${what}${number === 1 ? '' : 's'}`;
export const rate = number => number === null ? '–' : number === 0 ? '0' : number >= 100 ? whole.format(Math.round(number)) : number.toFixed(number >= 10 ? 1 : 2);

export function octets(number) {
  for (const unit of ['B', 'KB', 'MB', 'GB']) {
    if (number < 1000) return `${number < 10 && unit !== 'B' ? number.toFixed(1) : Math.round(number)} ${unit}`;
    number /= 1000;
  }
  return `${number.toFixed(1)} TB`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return '–';
  if (seconds > 0 && seconds < 0.9995) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 99.5) return `${seconds > 0 && seconds < 9.95 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  return seconds < 129600 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

/** A moment: the time of today, else the day too. Its whole text is the title. */
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text ?? '–';
  const pad = number => String(number).padStart(2, '0');
  const time = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const day = at.toDateString() === new Date().toDateString() ? '' : `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} `;
  return h('time', { datetime: text, title: text }, day + time);
}

export const link = (view, params, ...kids) => h('a', { href: `#/${view}${params ? `?${new URLSearchParams(params)}` : ''}` }, kids);
export const button = (text, onclick, has) => h('button', { type: 'button', onclick, ...has }, text);
