import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { findBytes } from '../../kernel/find-bytes.ts'
import { tooLarge } from './file-errors.ts'

export type Edit = Readonly<{ target_content: string; replacement_content: string }>

/** From this size on, other work runs between two edits. */
const LARGE_BYTES = 256 * 1024

/**
 * Applies the edits in order, each to the result of the one before. Each target must occur exactly once, overlapping
 * occurrences included. The first that does not fails the whole call, and nothing is changed.
 */
export async function applyEdits(
  content: Buffer,
  edits: readonly Edit[],
  fieldOf: (index: number) => string,
): Promise<Buffer> {
  let bytes = content
  for (const [index, edit] of edits.entries()) {
    if (index > 0 && bytes.length > LARGE_BYTES) await new Promise((resolve) => setImmediate(resolve))
    const target = Buffer.from(edit.target_content, 'utf8')
    const matches = findBytes(bytes, target, 2)
    if (matches.length !== 1) throw notOnce(fieldOf(index), matches.length)
    const at = matches[0]!
    const replacement = Buffer.from(edit.replacement_content, 'utf8')
    bytes = Buffer.concat([bytes.subarray(0, at), replacement, bytes.subarray(at + target.length)])
    if (bytes.length > limits.agentFileBytesMax) throw tooLarge('path', bytes.length, limits.agentFileBytesMax)
  }
  return bytes
}

const notOnce = (field: string, matches: number): AppError =>
  new AppError(
    'ERR_INVALID_INPUT',
    matches === 0
      ? `'${field}' does not occur in the file; read it and copy the text exactly. Nothing was changed.`
      : `'${field}' occurs more than once in the file; include more of the text around it. Nothing was changed.`,
    { field, constraint: 'exactly one occurrence', matches: matches === 0 ? 'none' : 'several' },
  )
