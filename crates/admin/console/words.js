// Reasons to wait, by code (docs/queue.md), in few words.

const WORDS = {
  ScheduledForLater: 'scheduled for later',
  LoggedTransientFailure: 'for the next attempt after a failure',
  ThrottledByThrottleInsertReadyQueue: 'put off by policy (throttle_insert_ready_queue)',
  ReadyQueueWasSuspended: 'suspended by an order',
  HeldByOrder: 'held by an order',
  MessageRateThrottle: 'a message rate is used up',
  SourceSelectionRateThrottle: 'no source may be chosen yet',
  SourceIsUnhealthyAndSuspended: 'its source does not work and rests',
  FailedToInsertIntoReadyQueue: 'no way could be found (policy, pool or DNS)',
  ConfigurationIsAwaited: 'policy or DNS have not answered yet',
  ReadyQueueWasFull: 'the ready queue is full (max_ready)',
  TooManyConnectionFailures: 'connections fail; a pause follows each',
  DestinationIsDead: 'the destination was given up for a while',
  ConnectionRateThrottle: 'the connection rate is used up',
  ConnectionLimit: 'all connections that are allowed are taken',
  BehindOthers: 'nothing: others go first, or a connection is opening',
  SpoolUnhealthy: 'the spool does not give it out',
};

export const words = code => WORDS[code] ?? code;

/** Reasons of a group, the largest first: [text, messages, code]. */
export function reasons({ waiting, due, out, why }) {
  const all = Object.entries(why).map(([code, messages]) => [words(code), messages, code]);
  const told = all.reduce((sum, [, messages]) => sum + messages, 0);
  if (waiting) all.push(['not yet due: a retry, or scheduled', waiting, 'waiting']);
  if (due > told) all.push(['just became due', due - told, 'due']);
  if (out) all.push(['ready, with a connection, held or ending', out, 'out']);
  return all.sort((a, b) => b[1] - a[1]);
}
