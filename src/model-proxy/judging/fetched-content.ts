import { fieldsOf } from '../protocols/protocol.ts'
import type { Fields } from './ports.ts'

/** Members that name content by an address, or a file that the provider has. */
const REFERENCE = /(?:url|uri)$|^file_?id$/i
const INLINE = /^data:/i
/** Deeper than any provider's part names its content: a document may have blocks of its own. */
const DEPTH_MAX = 8
/** A block with the text of a page that the program found. */
const FOUND = 'search_result'

/**
 * Whether a part of a message names content that the provider gets from elsewhere: a document or an image by its address, or a stored
 * file. It never passed through here, and the server at that address decides what the model reads. Inline content is the program's own.
 */
export function isFetched(part: Fields, depth = 1): boolean {
  if (part['type'] === FOUND) return true
  for (const [name, value] of Object.entries(part)) {
    if (typeof value === 'string') {
      if (value !== '' && REFERENCE.test(name) && !INLINE.test(value)) return true
    } else if (depth < DEPTH_MAX) {
      const inner = fieldsOf(value)
      if (inner !== undefined && isFetched(inner, depth + 1)) return true
    }
  }
  return false
}
