// The page: which view is shown, and asking the server again and again while somebody looks.

import { get } from './api.js';
import { button, draw, h, moment } from './dom.js';
import { note, overview } from './overview.js';
import { queue, queues, ready } from './queues.js';
import { orders } from './orders.js';
import { message, search } from './search.js';
import { config } from './config.js';

const VIEWS = { overview, queues, queue, ready, orders, search, message, config };
const NAV = [['overview', 'Overview'], ['queues', 'Queues'], ['orders', 'Orders'], ['search', 'Search'], ['config', 'Config']];
/** Which entry of the navigation a view belongs to. */
const HOME = { queue: 'queues', ready: 'queues', message: 'search' };
// Rates are differences: the second answer comes soon.
const SECOND_MS = 700, POLL_MS = 2000, POLL_MS_MAX = 30000;

const $ = id => document.getElementById(id);
let shown = { name: null, view: null, params: {} };
let data = null, failed = null, failures = 0, seen = null, lastAt = null;
let timer = null, asking = null;

function route() {
  const [name, query] = location.hash.replace(/^#\/?/, '').split('?');
  const known = Object.hasOwn(VIEWS, name) ? name : 'overview';
  const params = Object.fromEntries(new URLSearchParams(query));
  const isOther = shown.name !== null;
  shown = { name: known, view: VIEWS[known], params };
  data = null;
  document.title = `${shown.view.title(params)} – Postrider`;
  show();
  // Whoever cannot see hears where he is.
  if (isOther) $('main').querySelector('h1')?.focus();
  tick();
}

/** Asks for what is shown, draws it, and sets the time of the next question. */
async function tick() {
  clearTimeout(timer);
  asking?.abort();
  const mine = asking = new AbortController();
  const { view, params } = shown;
  const begun = performance.now();
  let isFirst = false;
  try {
    const [over, found] = await Promise.all([get('overview/v1', null, mine.signal), view.load ? view.load(params, mine.signal) : null]);
    if (asking !== mine) return;
    seen = over;
    note(over);
    data = found;
    isFirst = lastAt === null;
    [failed, failures, lastAt] = [null, 0, new Date().toISOString()];
  } catch (error) {
    if (asking !== mine) return;
    failed = error;
    failures += 1;
  }
  asking = null;
  show();
  // A server with much to look at is asked seldom: looking takes at most a tenth of its time.
  const took = performance.now() - begun;
  const wait = failures ? Math.min(POLL_MS * 2 ** failures, POLL_MS_MAX) : isFirst ? SECOND_MS : Math.max(view.every ?? POLL_MS, 10 * took);
  if (!document.hidden) timer = setTimeout(tick, wait);
}

function show() {
  const { name, view, params } = shown;
  draw($('nav'), NAV.map(([to, text]) => h('a', { href: `#/${to}`, 'aria-current': (HOME[name] ?? name) === to ? 'page' : null }, text)));
  draw($('host'), seen ? [seen.hostname] : []);
  const [kind, text] = failures ? ['bad', 'no answer'] : !seen ? ['', 'loading'] : seen.trouble ? ['warn', 'takes no mail'] : ['good', 'live'];
  draw($('state'), [h('span', { class: `dot ${kind}` }), ' ', h('span', null, text)]);
  draw($('trouble'), trouble());
  const isReady = !view.load || data !== null;
  draw($('main'), [h('h1', { tabindex: -1, key: 'h1' }, view.title(params)),
    isReady && (seen || !view.needsOverview) ? h('div', { key: location.hash }, view.show({ params, data, seen, again: tick, redraw: show })) : h('p', { class: 'dim', key: 'wait' }, failed ? 'Nothing to show yet.' : 'Loading …')]);
}

function trouble() {
  if (failed) {
    const what = failed.status === 401 || failed.status === 403 ? 'The server does not let you see this' : 'The server does not answer as it should';
    return h('div', { role: 'alert', class: 'bad' }, `${what}: ${failed.message}`, lastAt && [' – what is shown is of ', moment(lastAt)], button('Ask again', tick));
  }
  return seen?.trouble ? h('div', { role: 'alert', class: 'warn' }, `The server takes no mail: ${seen.trouble}`) : [];
}

addEventListener('hashchange', route);
document.addEventListener('visibilitychange', () => document.hidden ? clearTimeout(timer) : tick());
$('skip').onclick = event => {
  // The fragment is the view's.
  event.preventDefault();
  $('main').focus();
};
route();
