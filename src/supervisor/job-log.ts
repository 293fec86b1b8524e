import { appendFileSync, closeSync, openSync, readdirSync, readSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname } from 'node:path'

/**
 * The output of one stream of a background job, on disk, addressed by its offset from the job's start. At most the newest
 * SEGMENTS_MAX segments are retained; a reader that comes too late learns how many bytes it missed. Output that a full disk
 * cannot take is lost in the same way, and the job continues.
 */
export type JobLog = Readonly<{
  append(chunk: Buffer): void
  /** Stops at the next gap, so `skipped` always counts the bytes missing directly before `bytes`. */
  read(from: number, bytesMax: number): Promise<Readonly<{ bytes: Buffer; next: number; skipped: number }>>
  retainedBytes(): number
  /** Frees disk space. `retainedBytes` shrinks unless it is 0. */
  dropOldest(): void
}>

const SEGMENT_BYTES = 1024 * 1024
const SEGMENTS_MAX = 8

/** One file, named by the offset of its first byte. There may be a gap between two segments. */
type Segment = { readonly start: number; size: number }

export function createJobLog(path: string): JobLog {
  const pathOf = (start: number): string => `${path}.${start}`
  const segments = loadSegments(path)
  const endOf = ({ start, size }: Segment): number => start + size
  /** Bytes that the job has printed in total. */
  let total = segments.length === 0 ? 0 : endOf(segments.at(-1)!)

  /** Appends the part of the output that fits into one segment. */
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
      // A full disk may have taken only a part.
      last.size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
      if (last.size === 0) segments.pop()
    }
  }
  function dropOldest(): void {
    const oldest = segments.shift()
    if (oldest === undefined) return
    // The name of an empty file still records the offset.
    if (segments.length === 0 && oldest.size > 0) {
      try {
        writeFileSync(pathOf(total), '', { mode: 0o600 })
        segments.push({ start: total, size: 0 })
      } catch {
        // The disk has no space for an empty file either. The offset then lives only in memory.
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
      const offset = Math.min(Math.max(from, 0), total)
      const first = segments.findIndex((segment) => segment.size > 0 && endOf(segment) > offset)
      if (first < 0) return { bytes: Buffer.alloc(0), next: total, skipped: total - offset }
      const begin = Math.max(offset, segments[first]!.start)
      const parts: Buffer[] = []
      let next = begin
      for (const segment of segments.slice(first)) {
        if (segment.start > next || next - begin >= bytesMax) break
        const part = readPart(pathOf(segment.start), next - segment.start, begin + bytesMax - next)
        parts.push(part)
        next += part.length
      }
      return { bytes: Buffer.concat(parts), next, skipped: begin - offset }
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
