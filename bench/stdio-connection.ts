import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Answer, Connection } from './client.ts'

const newline = 10

/** The id of a response without parsing it: servers write it either first or last. */
const idOf = (bytes: Buffer, from: number, to: number): number => {
  const first = /^\{"jsonrpc":"2\.0","id":(\d+)/.exec(bytes.toString('latin1', from, Math.min(to, from + 48)))
  if (first !== null) return Number(first[1])
  const last = /"id":(\d+)\}\s*$/.exec(bytes.toString('latin1', Math.max(from, to - 32), to))
  if (last !== null) return Number(last[1])
  const message = JSON.parse(bytes.toString('utf8', from, to)) as { id?: number }
  return message.id ?? -1
}

/** JSON-RPC lines over a child's pipes. Requests made in one turn of the event loop leave in one write. */
export const openStdioConnection = (child: ChildProcess): Connection => {
  const { stdin, stdout, stderr } = child
  if (stdin === null || stdout === null || stderr === null) throw new Error('the child needs three pipes')
  const waiting = new Map<number, (answer: Answer) => void>()
  let nextId = 1
  let outgoing = ''
  let rest: Buffer = Buffer.alloc(0)
  let lastWords = ''
  let gone: Error | null = null

  const flush = (): void => {
    const text = outgoing
    outgoing = ''
    if (gone === null) stdin.write(text)
  }
  const queue = (line: string): void => {
    if (outgoing === '') process.nextTick(flush)
    outgoing += line
  }
  const lose = (reason: string): void => {
    if (gone !== null) return
    gone = new Error(`${reason}${lastWords === '' ? '' : `; its last words: ${lastWords.trim()}`}`)
    for (const done of waiting.values()) done(gone)
    waiting.clear()
  }
  const receive = (chunk: Buffer): void => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let from = 0
    for (let to = bytes.indexOf(newline); to >= 0; to = bytes.indexOf(newline, from)) {
      const id = to > from ? idOf(bytes, from, to) : -1
      const done = waiting.get(id)
      if (done !== undefined) {
        waiting.delete(id)
        done(bytes.subarray(from, to))
      }
      from = to + 1
    }
    rest = bytes.subarray(from)
  }
  stdout.on('data', receive)
  stdin.on('error', () => {})
  stderr.on('data', (chunk: Buffer) => {
    lastWords = (lastWords + chunk.toString('utf8')).slice(-1000)
  })
  child.on('error', (error) => lose(error.message))
  child.on('close', (code, signal) => lose(`the server ended (${signal ?? code})`))

  return {
    pid: child.pid ?? -1,
    send(body, done) {
      if (gone !== null) return done(gone)
      const id = nextId++
      waiting.set(id, done)
      queue(`{"jsonrpc":"2.0","id":${id},${body}}\n`)
    },
    notify: (body) => queue(`{"jsonrpc":"2.0",${body}}\n`),
    async close() {
      if (gone !== null) return
      const closed = once(child, 'close')
      stdin.end()
      const impatience = setTimeout(() => child.kill('SIGKILL'), 5_000)
      await closed
      clearTimeout(impatience)
    },
  }
}
