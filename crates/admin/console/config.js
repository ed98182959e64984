// Configuration: which epoch is in force, who began it, what of it waits for a restart, and how its files differ from those before.

import { get } from './api.js';
import { button, facts, h, many, moment } from './dom.js';

const POLL_MS = 5000;
/** What stands before a line, and what a screen reader says. */
const SIGNS = { added: ['+', 'added'], removed: ['\u2212', 'removed'], same: [' ', ''], gap: ['\u22ef', ''] };
/** Epochs whose files are shown, by when they were. */
const open = new Set();

export const config = {
  title: () => 'Configuration',
  needsOverview: true,
  every: POLL_MS,
  load: (_, signal) => get('config-changes/v1', null, signal),
  show({ seen, data, again }) {
    const now = data.epochs.find(epoch => epoch.number !== null);
    const waits = now?.needs_restart ?? [];
    return [
      h('section', { class: 'card' }, h('h2', null, now ? `Epoch ${now.number} is in force` : 'Epochs'), facts([
        ['Since', now && moment(now.at)], ['Begun by', now?.origin],
        ['Takes a restart', waits.length ? h('span', { class: 'warn' }, waits.join(', ')) : 'nothing'],
        ['Version', seen.version], ['Host', seen.hostname], ['Node', seen.node_id],
      ])),
      h('section', { class: 'card' }, h('h2', null, 'What changed'),
        data.epochs.map((epoch, at) => described(epoch, at, again)),
        h('p', { class: 'dim' }, 'The last 16 since the start of the program. Lines of a file that not everybody on the server may read are not shown; passwords are masked.')),
    ];
  },
};

const described = (epoch, at, again) => h('article', { class: 'epoch', key: `${epoch.number} ${epoch.at} ${at}` },
  h('h3', null, epoch.number === null ? h('span', { class: 'tag bad' }, 'did not begin') : `Epoch ${epoch.number}`, ' ', h('span', { class: 'when' }, moment(epoch.at))),
  h('p', null, epoch.origin), epoch.error && h('p', { class: 'bad' }, epoch.error),
  epoch.needs_restart.length > 0 && h('p', { class: 'warn' }, `takes a restart: ${epoch.needs_restart.join(', ')}`), differences(epoch, again));

function differences({ at, files }, again) {
  if (files.length === 0) return null;
  const isOpen = open.has(at);
  const toggle = () => { isOpen ? open.delete(at) : open.add(at); again(); };
  return [h('p', null, button(`${isOpen ? 'Hide' : 'Show'} ${many(files.length, 'file')}`, toggle, { 'aria-expanded': String(isOpen) })), isOpen && files.map(file)];
}

const file = ({ file, change, lines, withheld }) => h('figure', { class: 'diff', key: file },
  h('figcaption', null, h('code', null, file), ' ', h('span', { class: 'tag' }, change)),
  lines.length > 0 && h('div', { class: 'scroll', role: 'region', 'aria-label': `Lines of ${file}`, tabindex: 0 }, h('table', null, h('tbody', null, lines.map(line)))),
  withheld && h('p', { class: 'dim' }, lines.length > 0 ? `Not all lines: ${withheld}.` : `Lines are not shown: ${withheld}.`));

const line = ({ change, number, text }, at) => h('tr', { class: change, key: at },
  h('td', { class: 'num' }, change === 'gap' ? '' : number), h('td', { 'aria-label': SIGNS[change][1] || null }, SIGNS[change][0]), h('td', null, h('code', null, text)));
