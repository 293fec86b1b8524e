import { createConnection, type Socket } from 'node:net'
import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { type FlowLines, streamLines } from '../../mcp/line-transport.ts'
import { type Hello, helloLine, PROTOCOL, parseAnswer, readFirstLine } from './hello.ts'
import { readOwnerRecord } from './owner-files.ts'

export type Connected = Readonly<{ socket: Socket; pid: number; version: string; problems: readonly string[] }>

/** An answer carries its JSON twice, once escaped. */
const ANSWER_LINE_BYTES_MAX = 8 * limits.answerBytesMax

/** A greeted, paused socket, or undefined if nobody answers. */
export async function connectToOwner(
  { dataDir, requiredMode }: Readonly<{ dataDir: string; requiredMode?: string | undefined }>,
  hello: Hello,
  timeoutMs: number,
): Promise<Connected | undefined> {
  const record = readOwnerRecord(dataDir)
  if (record === undefined) return undefined
  const socket = createConnection({ path: record.socket, allowHalfOpen: true })
  socket.on('error', () => socket.destroy())
  socket.write(`${helloLine(hello)}\n`)
  const timer = Number.isFinite(timeoutMs) ? setTimeout(() => socket.destroy(), Math.max(timeoutMs, 0)) : undefined
  const line = await readFirstLine(socket)
  clearTimeout(timer)
  const parsed = line === undefined ? undefined : parseAnswer(line)
  if (parsed === undefined) {
    socket.destroy()
    return undefined
  }
  if (parsed.protocol !== PROTOCOL) {
    socket.destroy()
    throw new AppError(
      'ERR_INIT_FAILED',
      `The process that owns ${dataDir} (pid ${parsed.answer.pid}, castellan ${parsed.answer.version}) has an incompatible version. End it, then start again.`,
      { owner_pid: parsed.answer.pid, owner_version: parsed.answer.version },
    )
  }
  const { pid, version, mode, problems = [] } = parsed.answer
  if (requiredMode !== undefined && mode !== undefined && mode !== requiredMode) {
    socket.destroy()
    throw otherMode(dataDir, pid, mode, requiredMode)
  }
  return { socket, pid, version, problems }
}

/** The lines of a greeted connection. */
export const ownerLines = ({ socket }: Connected): FlowLines =>
  streamLines({ input: socket, output: socket, lineBytesMax: ANSWER_LINE_BYTES_MAX, pauseInputWhenFull: false })

const otherMode = (dataDir: string, pid: number, mode: string, requiredMode: string): AppError =>
  new AppError(
    'ERR_MODE_REFUSED',
    `mode: ${requiredMode} was requested, but process ${pid} owns ${dataDir} and serves it in mode ${mode}. End that process first, omit the mode to use the state as it is, or pass another --data-dir.`,
    { field: 'mode', owner_pid: pid, owner_mode: mode, mode: requiredMode },
  )
