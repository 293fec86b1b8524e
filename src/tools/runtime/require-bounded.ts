import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import type { CatalogTool } from './catalog.ts'

/** Counting bytes takes a pass over the text, so it is done only if a text of that length could be too large. */
export function requireBounded(tool: CatalogTool, json: string): void {
  const max = tool.definition.answerBytesMax ?? limits.answerBytesMax
  if (json.length * UTF8_BYTES_MAX <= max) return
  const size = Buffer.byteLength(json)
  if (size <= max) return
  const rule = `at most ${max} bytes`
  throw new AppError('ERR_TOO_LARGE', `The answer of '${tool.name}' has ${size} bytes; ${rule}.`, { size, rule })
}
/** Of one UTF-16 unit. */
const UTF8_BYTES_MAX = 3
