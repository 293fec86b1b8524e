import {
  appendFileSync,
  closeSync,
  existsSync,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
} from 'node:fs'
import { basename, dirname } from 'node:path'

/**
 * The output of one stream of a background job, on disk, with absolute positions from the job's start. The newest
 * SEGMENTS_MAX segments are kept; a reader that is too late learns how much it missed. What a full disk has no room for
 * is lost without a trace: the job goes on.
 */
export type JobLog = Readonly<{
  append(chunk: Buffer): void
  read(from: number, bytesMax: number): Promise<Readonly<{ bytes: Buffer; next: number; skipped: number }>>
}>

const SEGMENT_BYTES = 1024 * 1024
const SEGMENTS_MAX = 8

export function createJobLog(path: string): JobLog {
  const segmentPath = (number: number): string => `${path}.${number}`
  const numbers = readdirSync(dirname(path))
    .filter((name) => name.startsWith(`${basename(path)}.`))
    .map((name) => Number(name.slice(basename(path).length + 1)))
    .sort((a, b) => a - b)
  let first = numbers[0] ?? 0
  let total = 0
  if (numbers.length > 0) {
    const last = numbers.at(-1)!
    const fd = openSync(segmentPath(last), 'r')
    total = last * SEGMENT_BYTES + fstatSync(fd).size
    closeSync(fd)
  }
  return {
    append(chunk) {
      for (let at = 0; at < chunk.length; ) {
        const segment = Math.floor(total / SEGMENT_BYTES)
        const room = SEGMENT_BYTES - (total % SEGMENT_BYTES)
        const part = chunk.subarray(at, at + room)
        if (!existsSync(dirname(path))) return
        try {
          appendFileSync(segmentPath(segment), part, { mode: 0o600 })
        } catch {
          const { size = 0 } = statSync(segmentPath(segment), { throwIfNoEntry: false }) ?? {}
          total = segment * SEGMENT_BYTES + size
          return
        }
        total += part.length
        at += part.length
        for (; first + SEGMENTS_MAX <= segment; first++) rmSync(segmentPath(first), { force: true })
      }
    },
    async read(from, bytesMax) {
      const start = Math.min(Math.max(from, first * SEGMENT_BYTES), total)
      const length = Math.min(bytesMax, total - start)
      const bytes = Buffer.alloc(length)
      for (let done = 0; done < length; ) {
        const position = start + done
        const fd = openSync(segmentPath(Math.floor(position / SEGMENT_BYTES)), 'r')
        const offset = position % SEGMENT_BYTES
        const count = readSync(fd, bytes, done, Math.min(length - done, SEGMENT_BYTES - offset), offset)
        closeSync(fd)
        if (count === 0)
          return { bytes: bytes.subarray(0, done), next: start + done, skipped: start - Math.min(from, start) }
        done += count
      }
      return { bytes, next: start + length, skipped: start - Math.min(from, start) }
    },
  }
}
