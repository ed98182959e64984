// Messages: looked for, and what happened to one.

import { get } from './api.js';
import { button, count, facts, h, link, moment, table } from './dom.js';
import { words } from './words.js';
import { act, target } from './orders.js';

const FIELDS = [['id', 'Message id'], ['recipient', 'Recipient'], ['sender', 'Sender'], ['tenant', 'Tenant'], ['campaign', 'Campaign'], ['domain', 'Destination'], ['queue', 'Queue']];
const STATES = ['waiting', 'due', 'ready', 'in_delivery', 'ending', 'held', 'unspooled', 'delivered', 'bounced', 'admin_bounced', 'expired', 'transferred', 'unknown'];
const PAGE = 50;

const people = list => Array.isArray(list) ? list.join(', ') : list ?? '–';
const state = ({ state, why, until, what }) => h('span', null, state.replace('_', ' '), why && h('span', { class: 'dim' }, ` – ${words(why)}`, what && `: ${what}`, until && [', until ', moment(until)]));

/** A table of messages as search and inspection give them. */
export const messages = all => table('Messages', [{ name: 'Message' }, { name: 'State' }, { name: 'Due', when: 1, opt: 1 }, { name: 'Attempts', num: 1, opt: 1 }], all.map(found => {
  const { sender, recipient, due, num_attempts } = { ...found, ...found.message };
  return { key: found.id, cells: [[link('message', { id: found.id }, people(recipient)), h('div', { class: 'dim' }, `from ${sender || '<>'}`)], state(found), due ? moment(due) : '–', count(num_attempts)] };
}));

/** What was found, by question: asking again and again would cost the server much. */
let found = { of: null };

export const search = {
  title: () => 'Search messages',
  async load(params, signal) {
    const of = JSON.stringify(params);
    if (!Object.keys(params).length) return {};
    if (found.of !== of) {
      try {
        found = { of, answer: await get('search/v1', { limit: PAGE, ...params }, signal) };
      } catch (error) {
        if (error.status < 400) throw error;
        found = { of, error };
      }
    }
    return found;
  },
  show({ params, data }) {
    const submit = event => {
      event.preventDefault();
      const asked = [...new FormData(event.target)].map(([name, value]) => [name, value.trim()]).filter(([, value]) => value);
      found = { of: null };
      const hash = `#/search?${new URLSearchParams(asked)}`;
      if (location.hash === hash) dispatchEvent(new HashChangeEvent('hashchange'));
      else location.hash = hash;
    };
    const field = ([name, text]) => h('div', null, h('label', { for: `f-${name}` }, text), h('input', { type: 'text', id: `f-${name}`, name, value: params[name] ?? '', autocomplete: 'off', spellcheck: 'false' }));
    return [
      h('section', { class: 'card' }, h('form', { role: 'search', onsubmit: submit, key: 'form' },
        h('div', { class: 'fields' }, FIELDS.map(field), h('div', null, h('label', { for: 'f-state' }, 'State'),
          h('select', { id: 'f-state', name: 'state', value: params.state ?? '' }, h('option', { value: '' }, 'any'), STATES.map(name => h('option', { value: name }, name.replace('_', ' ')))))),
        h('button', { type: 'submit', class: 'main' }, 'Search'))),
      data.error && h('section', { class: 'card', role: 'status' }, data.error.isMissing ? 'Searching is not available on this server.' : h('span', { class: 'bad' }, data.error.message)),
      data.answer && h('section', { class: 'card', role: 'status' }, data.answer.messages.length ? messages(data.answer.messages) : h('p', null, 'No message was found.'),
        data.answer.next && h('p', null, link('search', { ...params, cursor: data.answer.next }, 'More'))),
    ];
  },
};

const TONES = { Delivery: 'good', Bounce: 'bad', AdminBounce: 'bad', Expiration: 'bad', TransientFailure: 'warn', Delayed: 'warn', Rejection: 'bad' };

function summary({ response, peer_address, site, egress_source, queue, bounce_classification }) {
  const reply = response?.code ? `${response.code} ${response.enhanced_code ? `${Object.values(response.enhanced_code).join('.')} ` : ''}${response.content ?? ''}` : null;
  const host = peer_address && [peer_address.name, peer_address.addr].filter(Boolean).join(' ');
  return [reply && h('p', null, reply), h('p', { class: 'dim' }, [queue && `queue ${queue}`, host && `peer ${host}`, egress_source && `source ${egress_source}`, site && `site ${site}`,
    bounce_classification && bounce_classification !== 'Uncategorized' && `class ${bounce_classification}`].filter(Boolean).join(' · '))];
}

export const message = {
  title: ({ id }) => `Message ${id}`,
  every: 5000,
  async load({ id }, signal) {
    const or = error => error.status >= 400 ? { error } : Promise.reject(error);
    const [timeline, inspected] = await Promise.all([get('timeline/v1', { id }, signal).catch(or), get('inspect-message/v1', { id }, signal).catch(or)]);
    return { timeline, now: timeline.now ?? (inspected.error ? null : { ...inspected, ...inspected.message }) };
  },
  show({ params, data, again }) {
    const { timeline, now } = data;
    const to = target.message(params.id);
    return [
      h('p', { class: 'path' }, '‹ ', link('search', null, 'Search')),
      now && h('div', { class: 'row' }, [['hold', 'Hold'], ['flush', 'Try now'], ['bounce', 'Bounce']].map(([kind, text]) => button(`${text}…`, () => act(to, kind, again), { class: kind === 'bounce' ? 'bad' : null }))),
      h('section', { class: 'card' }, h('h2', null, 'Now'), now ? facts([
        ['State', state(now)], ['Queue', now.queue_name && link('queue', { name: now.queue_name }, now.queue_name)], ['Sender', now.sender || '<>'], ['Recipient', people(now.recipient)],
        ['Received', now.created && moment(now.created)], ['Due', now.due && moment(now.due)], ['Attempts', count(now.num_attempts)],
      ]) : h('p', { class: 'dim' }, 'It is not queued here.')),
      h('section', { class: 'card' }, h('h2', null, 'Timeline'),
        timeline.error ? h('p', { class: 'dim' }, timeline.error.isMissing ? 'The timeline is not available on this server.' : timeline.error.message)
          : timeline.events.length ? h('ol', { class: 'events' }, timeline.events.map(({ at, type, record }, number) => h('li', { class: TONES[type], key: number },
            h('b', null, type), ' ', h('span', { class: 'when' }, moment(at)), summary(record), h('details', null, h('summary', null, 'Record'), h('pre', { tabindex: 0 }, JSON.stringify(record, null, 1))))))
            : h('p', { class: 'dim' }, 'The log has nothing about it.')),
    ];
  },
};
