// Configuration: which epoch is in force, who began it, what of it waits for a restart.

import { facts, h, moment, table } from './dom.js';

export const config = {
  title: () => 'Configuration',
  needsOverview: true,
  show({ seen }) {
    const now = seen.epochs.find(epoch => epoch.number !== null);
    const waits = now?.needs_restart ?? [];
    return [
      h('section', { class: 'card' }, h('h2', null, now ? `Epoch ${now.number} is in force` : 'Epochs'), facts([
        ['Since', now && moment(now.at)], ['Begun by', now?.origin],
        ['Takes a restart', waits.length ? h('span', { class: 'warn' }, waits.join(', ')) : 'nothing'],
        ['Version', seen.version], ['Host', seen.hostname], ['Node', seen.node_id],
      ])),
      h('section', { class: 'card' }, h('h2', null, 'What changed'),
        table('Epochs', [{ name: 'Epoch' }, { name: 'When', when: 1 }, { name: 'Begun by, and what changed' }], seen.epochs.map((epoch, at) => ({
          key: `${epoch.number} ${epoch.at} ${at}`,
          cells: [epoch.number === null ? h('span', { class: 'tag bad' }, 'did not begin') : `${epoch.number}`, moment(epoch.at),
            [epoch.origin, epoch.error && h('p', { class: 'bad' }, epoch.error), epoch.needs_restart && h('p', { class: 'warn' }, `takes a restart: ${epoch.needs_restart.join(', ')}`)]],
        }))),
        h('p', { class: 'dim' }, 'The last 16 since the start of the program. Files that are watched are named; what was in them before is not kept.')),
    ];
  },
};
