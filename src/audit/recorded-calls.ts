type Members = Readonly<Record<string, unknown>>

/** The calls that a log entry is about, in order, each with all that an entry of its own would say. Entries of runs have none. */
export function recordedCalls(record: string): readonly Members[] {
  const { calls, ...entry } = JSON.parse(record) as Members & Readonly<{ calls?: readonly Members[] }>
  if (calls === undefined) return entry['kind'] === 'call' ? [entry] : []
  const common: Members = { kind: 'call', tenant: entry['tenant'], v: 1 }
  // In the first version of a list each call says everything.
  if (entry['v'] === 1) return calls.map((call) => ({ ...common, ...call }))
  let before = common
  return calls.map((call) => {
    before = withChanges(before, call)
    return before
  })
}

/** Each call in a list has only what differs from the one before it. What is null there has ended. */
const withChanges = (before: Members, call: Members): Members =>
  Object.fromEntries(Object.entries({ ...before, ...call }).filter(([, value]) => value !== null))
