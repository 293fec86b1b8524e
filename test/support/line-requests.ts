import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** Requests and answers as lines of JSON over a child's standard input and output. The child ends when its input does. */
export type LineChild = Readonly<{
  pid: number
  ask<Result>(name: string, ...args: readonly unknown[]): Promise<Result>
  end(): Promise<void>
}>

type Line = Readonly<{ number: number; result?: unknown; error?: Readonly<{ message: string; code?: string }> }>

export async function startLineChild(argv: readonly string[]): Promise<LineChild> {
  const child: ChildProcess = spawn(argv[0]!, argv.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
  const waiting = new Map<number, PromiseWithResolvers<unknown>>()
  const ready = Promise.withResolvers<unknown>()
  waiting.set(0, ready)
  const ended = once(child, 'close')
  let gone = false
  void ended.then(([code]) => {
    gone = true
    for (const one of waiting.values()) one.reject(new Error(`${argv.join(' ')} ended with ${String(code)}`))
  })
  // A request that a child did not take fails when the child ends.
  child.stdin!.on('error', () => {})
  createInterface(child.stdout!).on('line', (text) => {
    const { number, result, error } = JSON.parse(text) as Line
    const asked = waiting.get(number)
    waiting.delete(number)
    if (error === undefined) asked?.resolve(result)
    else asked?.reject(Object.assign(new Error(error.message), { code: error.code }))
  })
  let last = 0
  await ready.promise
  return {
    pid: child.pid!,
    async ask<Result>(name: string, ...args: readonly unknown[]) {
      if (gone) throw new Error(`${argv.join(' ')} has ended`)
      const asked = Promise.withResolvers<unknown>()
      waiting.set(++last, asked)
      child.stdin!.write(`${JSON.stringify({ number: last, name, args })}\n`)
      return (await asked.promise) as Result
    },
    async end() {
      child.stdin!.end()
      await ended
    },
  }
}

/** The child's side: answers until the input ends, then ends the process. */
export function answerLines(handlers: Readonly<Record<string, (...args: never[]) => unknown>>): void {
  const write = (line: Line): void => void process.stdout.write(`${JSON.stringify(line)}\n`)
  createInterface(process.stdin)
    .on('line', async (text) => {
      const { number, name, args } = JSON.parse(text) as { number: number; name: string; args: never[] }
      try {
        write({ number, result: (await handlers[name]!(...args)) ?? null })
      } catch (error) {
        const { message, code } = error as Error & { code?: string }
        write({ number, error: { message, ...(code === undefined ? {} : { code }) } })
      }
    })
    .on('close', () => process.exit(0))
  write({ number: 0 })
}
