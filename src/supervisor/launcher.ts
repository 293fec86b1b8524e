import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

/** A command inside a workspace's namespaces, as the launcher takes it. Paths are those of the supervisor. */
export type EnterRequest = Readonly<{
  /** A process that is in the workspace's namespaces. */
  namespacePid: number
  stdin: string
  stdout: string
  stderr: string
  workdir: string
  /** Capabilities that remain, as a bit set. */
  capabilities: bigint
  processesMax: number
  filesMax: number
  seccompFilter: string
  /** Files that a process joins a control group by. */
  cgroups: readonly string[]
  argv: readonly string[]
  env: Readonly<Record<string, string>>
}>
/** Descriptors 3, 4 and 5 are for what bwrap tells, the filter, and the user namespace. */
export type HoldRequest = Readonly<{
  /** Who waits for this in the control groups already. Without one, or when it has ended, another joins them first. */
  seatPid: number | undefined
  stdin: string
  stdout: string
  log: string
  info: string
  seccompFilter: string
  userNamespacePid: number | undefined
  cgroups: readonly string[]
  argv: readonly string[]
}>
export type CommandEnd = Readonly<{ exitCode: number | null; signal: string | null }>
export type EnteredCommand = Readonly<{ pid: number; ended: Promise<CommandEnd> }>

export type Launcher = Readonly<{
  mount(type: string, source: string, target: string, flags: number, data: string): Promise<void>
  unmount(target: string, flags: number): Promise<void>
  makeFifos(paths: readonly string[]): Promise<void>
  /** Subvolumes of btrfs. */
  makeSubvolume(path: string, bytesMax: number): Promise<void>
  copySubvolume(source: string, path: string): Promise<void>
  removeSubvolume(path: string): Promise<void>
  /** A process that holds a new user namespace open; its maps are not written yet. */
  openUserNamespace(): Promise<number>
  enter(request: EnterRequest): Promise<EnteredCommand>
  /** A process that joins the control groups and waits there for what `hold` gives it. It ends with the launcher. */
  takeSeat(cgroups: readonly string[]): Promise<number>
  /** Ends it, if it still waits. */
  leaveSeat(pid: number): Promise<void>
  /** Starts bwrap. The launcher forks at once, where a large process first copies its page tables. */
  hold(request: HoldRequest): Promise<EnteredCommand>
  /** Settles when the launcher is gone, which ends the supervisor: without it nothing works. */
  gone: Promise<void>
}>

const signalNames = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

type Waiting = {
  answered(text: string): void
  failed(error: Error): void
  ended(end: CommandEnd): void
}

export function startLauncher(): Launcher {
  const script = fileURLToPath(new URL('./launcher.pl', import.meta.url))
  const child: ChildProcess = spawn('perl', [script], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: '/usr/bin:/bin' },
  })
  const waiting = new Map<number, Waiting>()
  let nextNumber = 1
  const gone = new Promise<void>((resolve) => {
    child.on('error', () => resolve())
    child.on('exit', () => resolve())
  })
  void gone.then(() => {
    for (const one of waiting.values()) one.failed(new Error('The launcher has ended'))
  })
  readLines(child, (line) => {
    const [number, word, ...rest] = line.split(' ')
    const entry = waiting.get(Number(number))
    if (entry === undefined || word === undefined) return
    if (word === 'failed') {
      waiting.delete(Number(number))
      entry.failed(new Error(rest.join(' ').trim()))
    } else if (word === 'exit') {
      waiting.delete(Number(number))
      entry.ended(endOf(Number(rest[0])))
    } else {
      entry.answered(rest.join(' '))
    }
  })

  /** `keeps` leaves the entry in place for the end that follows. */
  function ask(fields: readonly string[], keeps: boolean): { answer: Promise<string>; ended: Promise<CommandEnd> } {
    const number = nextNumber++
    let ended: (end: CommandEnd) => void = () => {}
    const end = new Promise<CommandEnd>((resolve) => {
      ended = resolve
    })
    const answer = new Promise<string>((resolve, reject) => {
      waiting.set(number, {
        answered(text) {
          if (!keeps) waiting.delete(number)
          resolve(text)
        },
        failed(error) {
          reject(error)
          ended({ exitCode: null, signal: 'SIGKILL' })
        },
        ended,
      })
    })
    const text = Buffer.from([String(number), ...fields].join('\0'))
    const head = Buffer.alloc(4)
    head.writeUInt32BE(text.length)
    child.stdin!.write(Buffer.concat([head, text]))
    return { answer, ended: end }
  }

  const done = async (...fields: string[]): Promise<void> => void (await ask(fields, false).answer)
  return {
    mount: (type, source, target, flags, data) => done('mount', type, source, target, String(flags), data),
    unmount: (target, flags) => done('umount', target, String(flags)),
    makeFifos: (paths) => done('fifo', ...paths),
    makeSubvolume: (path, bytesMax) => done('subvolume', path, String(bytesMax)),
    copySubvolume: (source, path) => done('subcopy', path, source),
    removeSubvolume: (path) => done('subdelete', path),
    openUserNamespace: async () => Number(await ask(['userns'], false).answer),
    takeSeat: async (cgroups) => Number(await ask(['seat', cgroups.join('\n')], false).answer),
    leaveSeat: (pid) => done('leave', String(pid)),
    async enter(request) {
      const { answer, ended } = ask(
        [
          'enter',
          String(request.namespacePid),
          request.stdin,
          request.stdout,
          request.stderr,
          request.workdir,
          request.capabilities.toString(16),
          String(request.processesMax),
          String(request.filesMax),
          request.seccompFilter,
          request.cgroups.join('\n'),
          String(request.argv.length),
          ...request.argv,
          ...Object.entries(request.env).map(([name, value]) => `${name}=${value}`),
        ],
        true,
      )
      return { pid: Number(await answer), ended }
    },
    async hold(request) {
      const { answer, ended } = ask(
        [
          'hold',
          String(request.seatPid ?? ''),
          request.cgroups.join('\n'),
          request.stdin,
          request.stdout,
          request.log,
          request.info,
          request.seccompFilter,
          String(request.userNamespacePid ?? ''),
          ...request.argv,
        ],
        true,
      )
      return { pid: Number(await answer), ended }
    },
    gone,
  }
}

/** A wait status as the kernel gives it: the low seven bits are a signal, the next byte an exit code. */
function endOf(status: number): CommandEnd {
  const signal = status & 0x7f
  if (signal !== 0) return { exitCode: null, signal: signalNames.get(signal) ?? `SIG${signal}` }
  return { exitCode: status >> 8, signal: null }
}

function readLines(child: ChildProcess, onLine: (line: string) => void): void {
  let held = ''
  child.stdout!.setEncoding('utf8').on('data', (chunk: string) => {
    held += chunk
    const lines = held.split('\n')
    held = lines.pop()!
    for (const line of lines) onLine(line)
  })
}
