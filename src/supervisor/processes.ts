import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export type ProcessEntry = Readonly<{ pid: number; parent: number; group: number; session: number; state: string }>

/** Every process that the supervisor can see, which is every process of every workspace. */
function listProcesses(): ProcessEntry[] {
  const found: ProcessEntry[] = []
  for (const name of readdirSync('/proc')) {
    const pid = Number(name)
    if (!Number.isInteger(pid)) continue
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
      // The command name stands in parentheses and may itself contain parentheses.
      const [state, parent, group, session] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      found.push({ pid, parent: Number(parent), group: Number(group), session: Number(session), state: state! })
    } catch {
      // The process has ended.
    }
  }
  return found
}

/** The processes in the pid namespace of `initPid`, except init itself. */
export function processesOf(initPid: number): ProcessEntry[] {
  const namespace = pidNamespaceOf(initPid)
  if (namespace === undefined) return []
  return listProcesses().filter((entry) => entry.pid !== initPid && pidNamespaceOf(entry.pid) === namespace)
}

/** A command's session, and its descendants, including those that called setsid. */
function familyOf(leader: number): ProcessEntry[] {
  const all = listProcesses()
  const family = new Map(all.filter((entry) => entry.session === leader || entry.pid === leader).map((e) => [e.pid, e]))
  for (let grown = true; grown; ) {
    grown = false
    for (const entry of all) {
      if (family.has(entry.pid) || !family.has(entry.parent)) continue
      family.set(entry.pid, entry)
      grown = true
    }
  }
  return [...family.values()]
}

/**
 * Signals a command and its descendants, and again while new ones appear. The leader's process group gets the signal first: a
 * leader that saw its child end first would report the child's end instead of the signal.
 */
export function signalFamily(leader: number, signal: number): void {
  const done = new Set<number>()
  for (let round = 0; round < 10; round++) {
    const fresh = familyOf(leader).filter((entry) => entry.state !== 'Z' && !done.has(entry.pid))
    if (fresh.length === 0) return
    if (fresh.some((entry) => entry.group === leader)) signalProcess(-leader, signal)
    for (const { pid, group } of fresh) {
      done.add(pid)
      if (group !== leader) signalProcess(pid, signal)
    }
    if (signal !== 9) return
  }
}

/** A negative `pid` means a process group. */
export function signalProcess(pid: number, signal: number): void {
  try {
    process.kill(pid, signal)
  } catch {
    // The process has ended.
  }
}

function pidNamespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return undefined
  }
}
