import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'

export type CommandEnd = Readonly<{ exitCode: number | null; signal: string | null }>
export type EnteredCommand = Readonly<{ pid: number; ended: Promise<CommandEnd> }>

/** One of our Perl programs, which make the system calls that Node has no API for. perl/requests.pl describes the protocol. */
type PerlProcess = Readonly<{
  done(...fields: string[]): Promise<void>
  number(...fields: string[]): Promise<number>
  /** For a request that starts a process. The program reports its end later. */
  process(...fields: string[]): Promise<EnteredCommand>
  /** Settles when the program has exited. */
  exited: Promise<void>
}>

const signalNames = new Map(Object.entries(constants.signals).map(([name, number]) => [number, name]))

type Waiting = {
  answered(text: string): void
  failed(error: Error): void
  ended(end: CommandEnd): void
}

export function startPerlProcess(script: string, args: readonly string[] = []): PerlProcess {
  const path = fileURLToPath(new URL(script, import.meta.url))
  const child: ChildProcess = spawn('perl', [path, ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { PATH: '/usr/bin:/bin' },
  })
  const waiting = new Map<number, Waiting>()
  let nextNumber = 1
  child.stdin!.on('error', () => {})
  const exited = new Promise<void>((resolve) => {
    child.on('error', () => resolve())
    child.on('exit', () => resolve())
  })
  void exited.then(() => {
    for (const one of waiting.values()) one.failed(new Error(`${script} has ended`))
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

  /** `keeps` retains the entry for the end of the process, which is reported later. */
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

  return {
    done: async (...fields) => void (await ask(fields, false).answer),
    number: async (...fields) => Number(await ask(fields, false).answer),
    async process(...fields) {
      const { answer, ended } = ask(fields, true)
      return { pid: Number(await answer), ended }
    },
    exited,
  }
}

/** Decodes a wait status (see waitpid(2)): the low seven bits are a signal, the next byte is an exit code. */
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
