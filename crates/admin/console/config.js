// Configuration: which epoch is in force, who began it, what of it waits for a restart, and how its files differ from those before.

import { get } from './api.js';
import { button, facts, h, many, moment } from './dom.js';

const POLL_MS = 5000;
/** What stands before a line, and what a screen reader says. */
const SIGNS = { added: ['+', 'added'], removed: ['\u2212', 'removed'], same: [' ', ''], gap: ['\u22ef', ''] };
/** Epochs whose files are shown. */
const open = new Set();

export const config = {
  title: () => 'Configuration',
  needsOverview: true,
  every: POLL_MS,
  load: (_, signal) => get('config-changes/v1', null, signal),
  show({ seen, data, redraw }) {
    const now = data.epochs.find(epoch => epoch.number !== null);
    const waits = now?.needs_restart ?? [];
    return [
      h('section', { class: 'card' }, h('h2', null, now ? `Epoch ${now.number} is in force` : 'Epochs'), facts([
        ['Since', now && moment(now.at)], ['Begun by', now?.origin],
        ['Takes a restart', waits.length ? h('span', { class: 'warn' }, waits.join(', ')) : 'nothing'],
        ['Version', seen.version], ['Host', seen.hostname], ['Node', seen.node_id],
      ])),
      h('section', { class: 'card' }, h('h2', null, 'What changed'),
        data.epochs.map(epoch => described(epoch, redraw)),
        h('p', { class: 'dim' }, 'The last 16 since the start of the program. Lines of a file that not everybody on the server may read are not shown; what looks like a secret is masked.')),
    ];
  },
};

const described = (epoch, redraw) => h('article', { class: 'epoch', key: epoch.serial },
  h('h3', null, epoch.number === null ? h('span', { class: 'tag bad' }, 'did not begin') : `Epoch ${epoch.number}`, ' ', h('span', { class: 'when' }, moment(epoch.at))),
  h('p', null, epoch.origin), epoch.error && h('p', { class: 'bad' }, epoch.error),
  epoch.needs_restart.length > 0 && h('p', { class: 'warn' }, `takes a restart: ${epoch.needs_restart.join(', ')}`), differences(epoch, redraw));

function differences({ serial, number, files }, redraw) {
  if (files.length === 0) return null;
  const isOpen = open.has(serial);
  const toggle = () => { isOpen ? open.delete(serial) : open.add(serial); redraw(); };
  const text = `${isOpen ? 'Hide' : 'Show'} ${many(files.length, 'file')}`;
  const of = number === null ? 'that did not load' : `of epoch ${number}`;
  return [h('p', null, button(text, toggle, { 'aria-expanded': String(isOpen), 'aria-label': `${text} ${of}` })), isOpen && files.map(file)];
}

const file = ({ file, change, lines, withheld }) => h('figure', { class: 'diff', key: file },
  h('figcaption', null, h('code', null, file), ' ', h('span', { class: 'tag' }, change)),
  lines.length > 0 && h('div', { class: 'scroll', role: 'region', 'aria-label': file, tabindex: 0 }, h('table', { 'aria-label': `Lines of ${file}` }, h('tbody', null, lines.map(line)))),
  withheld && h('p', { class: 'dim' }, lines.length > 0 ? `Not all lines: ${withheld}.` : `Lines are not shown: ${withheld}.`));

const line = ({ change, number, text }, at) => h('tr', { class: change, key: at },
  h('td', { class: 'num' }, change === 'gap' ? '' : number), h('td', { 'aria-label': SIGNS[change][1] || null }, SIGNS[change][0]), h('td', null, h('code', null, text)));
