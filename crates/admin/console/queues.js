// Queues: summed up by destination, tenant, campaign, source or provider, down to a single one and its messages.

import { get } from './api.js';
import { button, count, facts, h, link, many, moment, span, table } from './dom.js';
import { reasons, words } from './words.js';
import { act, inForce, list, target } from './orders.js';
import { bars, replies } from './overview.js';
import { messages } from './search.js';

const KINDS = [['domain', 'Destination'], ['tenant', 'Tenant'], ['campaign', 'Campaign'], ['queue', 'Queue'], ['source', 'Source'], ['provider', 'Provider'], ['ready', 'Ready queue']];
const OF_READY = ['source', 'provider', 'ready'];
const NARROWS = ['domain', 'tenant', 'campaign', 'source', 'provider'];
const ROWS = 50;

/** Where a name leads: one step down. */
function down(by, name, params) {
  if (name === null) return h('span', { class: 'dim' }, `(no ${by})`);
  if (by === 'queue' || by === 'ready') return link(by, { name }, name);
  const narrowed = Object.fromEntries(NARROWS.filter(key => params[key]).map(key => [key, params[key]]));
  const next = OF_READY.includes(by) ? 'ready' : by === 'domain' || params.domain ? 'queue' : 'domain';
  return link('queues', { by: next, ...narrowed, [by]: name }, name);
}

function aim(by, name, params) {
  if (name === null) return null;
  if (by === 'queue') return target.queue(name);
  if (by === 'ready') return target.ready(name);
  // What the view is narrowed to narrows the order too.
  return OF_READY.includes(by) ? null : narrowed({ ...params, [by]: name });
}

/** The target of what a view is narrowed to, if an order can name it. */
function narrowed(params) {
  const given = ['domain', 'tenant', 'campaign'].filter(key => params[key]);
  if (!given.length) return null;
  const of = Object.fromEntries(given.map(key => [key, params[key]]));
  return { of, asks: { by: 'domain', ...of }, name: given.map(key => `${key} ${params[key]}`).join(', ') };
}

const actions = (to, again, kinds) => h('div', { class: 'row' }, kinds.map(([kind, text]) => button(`${text}…`, () => act(to, kind, again), { class: kind === 'bounce' ? 'bad' : null })));
const OF_SCHEDULED = [['suspend', 'Suspend'], ['hold', 'Hold'], ['flush', 'Try now'], ['bounce', 'Bounce']];

const held = ({ suspended, queues }) => suspended ? h('span', { class: 'tag warn' }, queues > 1 ? `${count(suspended)} suspended` : 'suspended') : null;

function row(by, group, params, again) {
  const to = aim(by, group.name, params);
  const why = OF_READY.includes(by) ? Object.entries(group.why).sort((a, b) => b[1] - a[1]).map(([code, number]) => [words(code), number, code]) : reasons(group);
  const first = why[0] && h('span', { class: 'dim' }, why.length > 1 ? `${count(why[0][1])} ${why[0][0]}` : why[0][0]);
  const act_ = to && button('Act…', () => act(to, null, again), { 'aria-label': `Act on ${to.name}` });
  const numbers = OF_READY.includes(by) ? [count(group.count), count(group.connections)] : [count(group.count), count(group.waiting), count(group.due), count(group.out)];
  const outcomes = by === 'ready' ? [count(group.delivered), count(group.transient), count(group.failed)] : [];
  const queues = by === 'queue' || by === 'ready' ? [] : [count(group.queues)];
  return { key: `${group.name}`, cells: [[down(by, group.name, params), ' ', held(group)], ...numbers, ...queues, ...outcomes,
    by === 'ready' && group.last_reply ? h('span', null, h('b', { class: group.last_reply.permanent ? 'bad' : 'warn' }, group.last_reply.code), ` ${group.last_reply.text}`) : by === 'ready' ? '' : first ?? '', act_ ?? ''] };
}

function columns(by) {
  const name = { name: KINDS.find(([kind]) => kind === by)[1] };
  const numbers = OF_READY.includes(by) ? [{ name: 'Messages', num: 1 }, { name: 'Connections', num: 1, opt: 1 }]
    : [{ name: 'Messages', num: 1 }, { name: 'Wait', num: 1, opt: 1 }, { name: 'Due', num: 1, opt: 1 }, { name: 'Out', num: 1, opt: 1 }];
  const outcomes = by === 'ready' ? ['Delivered', 'Put off', 'Failed'].map(name => ({ name, num: 1, opt: 1 })) : [];
  const queues = by === 'queue' || by === 'ready' ? [] : [{ name: 'Queues', num: 1, opt: 1 }];
  return [name, ...numbers, ...queues, ...outcomes, { name: by === 'ready' ? 'Last refusal' : 'Mostly waits for', opt: 1 }, { name: '' }];
}

const known = by => KINDS.some(([kind]) => kind === by) ? by : 'domain';

// What a connection does: a word, or for one that gathers a batch an object of that name.
const phase = said => typeof said === 'object' ? Object.keys(said)[0] : said;

export const queues = {
  title: () => 'Queues',
  load(params, signal) {
    const by = known(params.by);
    const fit = OF_READY.includes(by) ? ['source', 'provider'] : ['domain', 'tenant', 'campaign'];
    const of = Object.fromEntries(fit.map(key => [key, params[key]]));
    return get('queues/v1', { by, limit: ROWS, prefix: params.prefix, cursor: params.cursor, ...of }, signal);
  },
  show({ params, data, again }) {
    const by = data.by;
    const given = NARROWS.filter(key => params[key]);
    // An order cannot say how names begin.
    const to = params.prefix ? null : narrowed(params);
    const tabs = KINDS.filter(([kind]) => given.every(key => OF_READY.includes(kind) === OF_READY.includes(key)));
    const filter = event => {
      event.preventDefault();
      const { cursor, prefix, ...rest } = params;
      const typed = event.target.elements.prefix.value.trim();
      location.hash = `#/queues?${new URLSearchParams({ ...rest, by, ...(typed && { prefix: typed }) })}`;
    };
    return [
      given.length > 0 && h('p', { class: 'path' }, link('queues', null, 'All'), given.map(key => [' › ', `${key} `, h('b', null, params[key])])),
      h('nav', { class: 'tabs', 'aria-label': 'Summed up by' }, tabs.map(([kind, text]) => {
        const { cursor, prefix, ...rest } = params;
        return h('a', { href: `#/queues?${new URLSearchParams({ ...rest, by: kind })}`, 'aria-current': kind === by ? 'page' : null }, text);
      })),
      to && actions(to, again, OF_SCHEDULED),
      h('section', { class: 'card' },
        h('form', { class: 'row', role: 'search', onsubmit: filter, key: `filter ${by}` }, h('div', null, h('label', { for: 'prefix' }, 'Begins with'),
          h('input', { type: 'text', id: 'prefix', name: 'prefix', value: params.prefix ?? '', autocomplete: 'off', spellcheck: 'false' })), h('button', { type: 'submit' }, 'Filter')),
        h('p', { class: 'dim' }, `${many(data.total.count, 'message')} in ${many(data.total.queues, 'queue')}, ${many(data.groups_total, 'row')}`),
        data.groups.length ? table('Queues', columns(by), data.groups.map(group => row(by, group, params, again))) : h('p', null, 'Nothing is queued here.'),
        h('p', null, params.cursor && link('queues', { ...params, cursor: '' }, 'First page'), ' ', data.next && link('queues', { ...params, by, cursor: data.next }, 'Next page'))),
    ];
  },
};

/** Orders that are about a queue of this name. */
function about(order, name) {
  if (order.messages?.length) return false;
  if (order.queue_names?.length) return order.queue_names.includes(name);
  const [, prefix, rest] = name.match(/^(?:([^@]*)@)?(.*)$/s);
  const [domain, routing] = rest.split(/!(.*)/s);
  const at = prefix?.indexOf(':') ?? -1;
  const parts = { domain: domain.toLowerCase(), routing_domain: routing?.toLowerCase(), tenant: prefix?.slice(at + 1), campaign: at < 0 ? undefined : prefix.slice(0, at) };
  return ['domain', 'routing_domain', 'tenant', 'campaign'].every(key => order[key] === undefined || (key.endsWith('domain') ? order[key].toLowerCase() : order[key]) === parts[key]);
}

export const queue = {
  title: ({ name }) => `Queue ${name}`,
  every: 5000,
  async load({ name }, signal) {
    const [sums, orders, looked] = await Promise.all([get('queues/v1', { by: 'queue', name, limit: 1 }, signal), inForce(signal, ['suspend/v1', 'hold/v1', 'bounce/v1', 'flush/v1']),
      get('inspect-sched-q/v1', { queue_name: name, limit: 25 }, signal).catch(error => error.status === 404 ? { messages: [] } : Promise.reject(error))]);
    return { total: sums.total, group: sums.groups[0], orders: orders.filter(order => about(order, name)), looked };
  },
  show({ params, data, again }) {
    const { total, orders, looked } = data;
    const why = reasons(total);
    return [
      h('p', { class: 'path' }, '‹ ', link('queues', { by: 'queue' }, 'Queues'), ' ', data.group && held(data.group)),
      actions(target.queue(params.name), again, OF_SCHEDULED),
      h('div', { class: 'grid' },
        h('section', { class: 'card' }, h('h2', null, many(total.count, 'message')), why.length ? bars(why) : h('p', { class: 'dim' }, 'Nothing waits.')),
        orders.length > 0 && h('section', { class: 'card' }, h('h2', null, 'Orders about it'), list(orders, again))),
      h('section', { class: 'card' }, h('h2', null, looked.messages.length < total.count ? `${looked.messages.length} of its messages` : 'Its messages'),
        looked.messages.length ? messages(looked.messages) : h('p', { class: 'dim' }, 'None is here.')),
    ];
  },
};

export const ready = {
  title: ({ name }) => `Ready queue ${name}`,
  async load({ name }, signal) {
    const [sums, orders, found] = await Promise.all([get('queues/v1', { by: 'ready', name, limit: 1 }, signal), inForce(signal, ['suspend-ready-q/v1']),
      get('inspect-ready-q/v1', { queue_name: name }, signal).catch(error => error.status === 404 ? null : Promise.reject(error))]);
    return { group: sums.groups[0], orders: orders.filter(order => order.name === name), found };
  },
  show({ params, data, again }) {
    const { group, orders, found } = data;
    const path = h('p', { class: 'path' }, '‹ ', link('queues', { by: 'ready' }, 'Ready queues'), ' ', group && held(group));
    const about = orders.length > 0 && h('section', { class: 'card' }, h('h2', null, 'Orders about it'), list(orders, again));
    if (!found) return [path, h('p', null, 'There is no such ready queue now.'), about];
    const { state, mx, dispatchers } = found;
    const limited = limit => limit && [limit.context, ', since ', moment(limit.since)];
    const hosts = mx && Object.entries(mx.by_preference).map(([preference, names]) => `${names.join(', ')} (${preference})`).join('; ');
    const why = Object.entries(group?.why ?? {}).map(([code, number]) => [words(code), number]);
    return [path, actions(target.ready(params.name), again, [['ready', 'Suspend']]),
      h('div', { class: 'grid' },
        h('section', { class: 'card' }, h('h2', null, 'State'), facts([
          ['Messages', count(state.ready_count)], ['Connections', count(state.connection_count)], ['Waits for', why.map(([text]) => text).join('; ')],
          ['Suspended', state.suspended && [state.suspended.context, ', since ', moment(state.suspended.since)]],
          ['Limited', limited(state.connection_limited)], ['Connection rate', limited(state.connection_rate_throttled)],
          ['Source', link('queues', { by: 'ready', source: found.egress_source }, found.egress_source)], ['Pool', found.egress_pool], ['Protocol', found.protocol], ['Hosts', hosts],
          ['Delivered', group && count(group.delivered)], ['Put off', group && count(group.transient)], ['Failed', group && count(group.failed)],
        ])),
        about,
        h('section', { class: 'card' }, h('h2', null, 'Last refusal'), group?.last_reply ? replies([group.last_reply]) : h('p', { class: 'dim' }, 'None.'))),
      h('section', { class: 'card' }, h('h2', null, many(dispatchers.length, 'connection')), dispatchers.length ? table('Connections', [{ name: 'Host' }, { name: 'Phase' }, { name: 'Age', num: 1 }, { name: 'Delivered', num: 1 }, { name: 'Put off', num: 1, opt: 1 }, { name: 'Failed', num: 1, opt: 1 }], dispatchers.map(one => ({
        key: one.session_id,
        cells: [one.detail ?? '–', `${phase(one.phase)} (${one.time_in_current_phase})`, span((Date.now() - Date.parse(one.started_at)) / 1000), count(one.messages_delivered), count(one.messages_transfailed), count(one.messages_failed)],
      }))) : h('p', { class: 'dim' }, 'None is open.')),
    ];
  },
};
