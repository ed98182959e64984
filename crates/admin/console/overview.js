// The first view: what comes in and goes out, how long it takes, what waits and why, what destinations answer.

import { get } from './api.js';
import { count, facts, h, link, many, moment, octets, rate, span, table } from './dom.js';
import { reasons } from './words.js';

/** Answers of the last minutes, the latest last. */
let samples = [];
const SAMPLES_MAX = 150;
const WINDOW_MS = 10000;

/** Keeps an answer, for rates are differences. One that is not of the same run begins anew. */
export function note(over) {
  const last = samples.at(-1);
  if (last && (over.node_id !== last.node_id || over.uptime_seconds < last.uptime_seconds)) samples = [];
  samples.push({ ...over, at: Date.parse(over.now) });
  samples = samples.slice(-SAMPLES_MAX);
}

const between = (name, before, after) => {
  const seconds = (after.at - before.at) / 1000;
  return seconds > 0 ? Math.max(0, after.totals[name] - before.totals[name]) / seconds : null;
};

/** A second, over the last ten. */
function rateOf(name) {
  const last = samples.at(-1);
  const first = samples.find(sample => sample.at >= last.at - WINDOW_MS - 500);
  // On a busy server an answer may take longer than that.
  return between(name, first === last ? samples.at(-2) ?? last : first, last);
}

function line(values) {
  const max = Math.max(...values, 0.001);
  const step = 100 / Math.max(values.length - 1, 1);
  const d = values.map((value, at) => `${at ? 'L' : 'M'}${(at * step).toFixed(2)} ${(19 - 18 * value / max).toFixed(2)}`).join('');
  return h('svg', { viewBox: '0 0 100 20', preserveAspectRatio: 'none', 'aria-hidden': 'true' }, h('path', { d }));
}

const tile = (name, value, small, values) => h('div', { class: 'tile', key: name },
  h('dt', null, name), h('dd', null, value, h('small', null, small ?? '')), values ? line(values) : null);

function flow(name, text, total) {
  const values = samples.slice(1).map((sample, at) => between(name, samples[at], sample) ?? 0);
  return tile(text, [rate(rateOf(name)), h('span', { class: 'dim' }, ' /s')], `${count(total)} in all`, values);
}

/** What share `wanted` of all took at most, in seconds; null when there were none, Infinity beyond the last bound. */
export function quantile({ buckets, count }, wanted) {
  if (!count) return null;
  const rank = wanted * count;
  let [below, from] = [0, 0];
  for (const [bound, upTo] of buckets) {
    if (upTo >= rank) return from + (bound - from) * (rank - below) / Math.max(upTo - below, 1);
    [below, from] = [upTo, bound];
  }
  return Infinity;
}

const since = (before, after) => ({
  count: after.count - before.count,
  buckets: after.buckets.map(([bound, upTo], at) => [bound, upTo - before.buckets[at][1]]),
});

function latency(seen) {
  const first = samples[0], minutes = span((samples.at(-1).at - first.at) / 1000);
  const rows = [['reception', 'End of DATA to reply'], ['delivery', 'Reception to delivery']].flatMap(([name, text]) =>
    [samples.length > 1 && [`last ${minutes}`, since(first.latency[name], seen.latency[name])], ['all time', seen.latency[name]]].filter(Boolean).map(([when, of], at) => ({
      key: `${name}${at}`,
      cells: [[at ? '' : `${text}, `, h('span', { class: 'dim' }, when)], ...[0.5, 0.95, 0.99].map(part => {
        const took = quantile(of, part);
        return took === Infinity ? `> ${span(of.buckets.at(-1)[0])}` : span(took);
      }), count(of.count)],
    })));
  return table('Latency', [{ name: 'From, over' }, { name: 'p50', num: 1 }, { name: 'p95', num: 1 }, { name: 'p99', num: 1 }, { name: 'Count', num: 1, opt: 1 }], rows);
}

/** Bars: [text, number, link or nothing], shares of the largest. Of a reason the third is its code, which is its title. */
export function bars(all) {
  const max = Math.max(...all.map(([, number]) => number), 1);
  return all.map(([text, number, to]) => h('div', { class: 'bar', share: `${(100 * number / max).toFixed(1)}%`, key: `${text}` },
    h('div', { class: 'meter' }, to?.tag ? to : h('span', { title: to }, text), h('span', { class: 'num' }, count(number)))));
}

/** Refusals, the latest first. */
export const replies = all => h('ul', { class: 'replies' }, all.map(reply => h('li', null,
  h('span', { class: 'when' }, moment(reply.at)), ' ', reply.queue ? link('queue', { name: reply.queue }, reply.queue) : '–',
  h('div', null, h('b', { class: reply.permanent ? 'bad' : 'warn' }, reply.code), ` ${reply.text}`, reply.times > 1 && h('span', { class: 'dim' }, ` (${count(reply.times)} times)`)))));

export const overview = {
  title: () => 'Overview',
  needsOverview: true,
  load: (_, signal) => get('queues/v1', { by: 'domain', limit: 8 }, signal),
  show({ data, seen }) {
    const { totals, connections, memory, spool } = seen;
    const why = reasons(data.total);
    const disks = spool.volumes.map(({ name, free_bytes, free_percent }) => [`Free, ${name}`, `${octets(free_bytes)} (${free_percent} %)`]);
    return [
      h('dl', { class: 'tiles' },
        flow('received', 'Received', totals.received), flow('delivered', 'Delivered', totals.delivered),
        flow('transient', 'Put off', totals.transient), flow('failed', 'Failed', totals.failed),
        tile('Queued', count(data.total.count), many(data.total.queues, 'queue')),
        tile('Connections', [`${count(connections.outbound)}`, h('span', { class: 'dim' }, ' out')], `${count(connections.inbound)} in`)),
      h('div', { class: 'grid' },
        h('section', { class: 'card' }, h('h2', null, 'Why mail waits'), why.length ? bars(why) : h('p', { class: 'dim' }, 'Nothing waits.')),
        h('section', { class: 'card' }, h('h2', null, 'Most queued, by destination'),
          data.groups.length ? bars(data.groups.map(({ name, count }) => [name, count, link('queues', { by: 'queue', domain: name }, name)])) : h('p', { class: 'dim' }, 'Nothing is queued.'),
          data.groups_total > data.groups.length && h('p', null, link('queues', null, `All ${count(data.groups_total)}`))),
        h('section', { class: 'card' }, h('h2', null, 'Latency'), latency(seen)),
        h('section', { class: 'card' }, h('h2', null, 'Server'), facts([
          ['Running', span(seen.uptime_seconds)], ['Version', seen.version],
          ['Memory', octets(memory.used_bytes) + (memory.limit_bytes ? ` of ${octets(memory.limit_bytes)}` : '')],
          ['Spool', `${many(spool.messages, 'message')}, ${octets(spool.bytes_on_disk)} on disk${spool.recovering ? ', still reading earlier mail' : ''}`],
          ...disks, ['Orders in force', link('orders', null, count(seen.orders))],
          ['Configuration', link('config', null, `epoch ${seen.epochs.find(epoch => epoch.number !== null)?.number ?? '–'}`)],
        ]))),
      h('section', { class: 'card' }, h('h2', null, 'Last refusals'), seen.last_replies.length ? replies(seen.last_replies.slice(0, 15)) : h('p', { class: 'dim' }, 'None since the start.')),
    ];
  },
};
