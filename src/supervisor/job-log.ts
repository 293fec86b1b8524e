import { appendFileSync, closeSync, openSync, readdirSync, readSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/**
 * The output of one stream of a background job, on disk, with absolute positions from the job's start. The newest
 * SEGMENTS_MAX segments are kept, or fewer; a reader that is too late learns how much it missed. What a full disk has no
 * room for is missed in the same way: the job goes on.
 */
export type JobLog = Readonly<{
  append(chunk: Buffer): void
  /** Ends where something is missing, so that `skipped` is always what is missing before `bytes`. */
  read(from: number, bytesMax: number): Promise<Readonly<{ bytes: Buffer; next: number; skipped: number }>>
  retainedBytes(): number
  /** Makes space; `retainedBytes` is less afterwards, unless it was 0. */
  dropOldest(): void
}>

const SEGMENT_BYTES = 1024 * 1024
const SEGMENTS_MAX = 8

/** One file, named by the position of its first byte. Between two there may be a gap. */
type Segment = { readonly start: number; size: number }

export function createJobLog(path: string): JobLog {
  const pathOf = (start: number): string => `${path}.${start}`
  const segments = loadSegments(path)
  const endOf = ({ start, size }: Segment): number => start + size
  /** Everything that was ever said. */
  let total = segments.length === 0 ? 0 : endOf(segments.at(-1)!)

  /** Of what is said next, as much as fits into one segment. */
  function appendPart(part: Buffer): void {
    let last = segments.at(-1)
    if (last === undefined || last.size >= SEGMENT_BYTES || endOf(last) !== total) {
      last = { start: total, size: 0 }
      segments.push(last)
    }
    total += part.length
    const file = pathOf(last.start)
    try {
      appendFileSync(file, part, { mode: 0o600 })
      last.size += part.length
    } catch {
      // As much as there was room for.
      last.size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
      if (last.size === 0) segments.pop()
    }
  }
  function dropOldest(): void {
    const oldest = segments.shift()
    if (oldest === undefined) return
    // The name of an empty file still says how much there was.
    if (segments.length === 0 && oldest.size > 0) {
      try {
        writeFileSync(pathOf(total), '', { mode: 0o600 })
        segments.push({ start: total, size: 0 })
      } catch {
        // No room even for that: until the supervisor ends we know it ourselves.
      }
    }
    rmSync(pathOf(oldest.start), { force: true })
    if (oldest.size === 0 && segments.length > 0) dropOldest()
  }

  return {
    append(chunk) {
      for (let at = 0; at < chunk.length; ) {
        const last = segments.at(-1)
        const isOpen = last !== undefined && last.size < SEGMENT_BYTES && endOf(last) === total
        const part = chunk.subarray(at, at + (isOpen ? SEGMENT_BYTES - last.size : SEGMENT_BYTES))
        appendPart(part)
        at += part.length
        while (segments.length > SEGMENTS_MAX) dropOldest()
      }
    },
    async read(from, bytesMax) {
      const wanted = Math.min(Math.max(from, 0), total)
      const first = segments.findIndex((segment) => segment.size > 0 && endOf(segment) > wanted)
      if (first < 0) return { bytes: Buffer.alloc(0), next: total, skipped: total - wanted }
      const begin = Math.max(wanted, segments[first]!.start)
      const parts: Buffer[] = []
      let next = begin
      for (const segment of segments.slice(first)) {
        if (segment.start > next || next - begin >= bytesMax) break
        const part = readPart(pathOf(segment.start), next - segment.start, begin + bytesMax - next)
        parts.push(part)
        next += part.length
      }
      return { bytes: Buffer.concat(parts), next, skipped: begin - wanted }
    },
    retainedBytes: () => segments.reduce((sum, { size }) => sum + size, 0),
    dropOldest,
  }
}

function loadSegments(path: string): Segment[] {
  const prefix = `${basename(path)}.`
  return readdirSync(dirname(path))
    .filter((name) => name.startsWith(prefix))
    .map((name) => ({ start: Number(name.slice(prefix.length)), size: statSync(`${dirname(path)}/${name}`).size }))
    .sort((a, b) => a.start - b.start)
}

function readPart(path: string, offset: number, bytesMax: number): Buffer {
  const fd = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(Math.min(bytesMax, SEGMENT_BYTES - offset))
    return bytes.subarray(0, readSync(fd, bytes, 0, bytes.length, offset))
  } finally {
    closeSync(fd)
  }
}
