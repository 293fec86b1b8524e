import { AppError } from '../../contract/app-error.ts'
import { limits } from '../../contract/limits.ts'
import { responseBytesMax } from '../../domains/security-contexts/policy-evaluator.ts'
import type { CatalogTool } from './catalog.ts'
import type { Invocation } from './stages.ts'

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

/** What the caller's security contexts allow. */
export function requireResponseSize({ caller, output }: Invocation, tool: string): void {
  const max = responseBytesMax(caller.principal, tool)
  if (max === undefined) return
  const size = Buffer.byteLength(JSON.stringify(output))
  if (size <= max) return
  throw new AppError(
    'ERR_TOO_LARGE',
    `OutputSizeLimitExceeded: the answer of '${tool}' has ${size} bytes; your security context allows ${max}. Ask for less.`,
    { violation: 'OutputSizeLimitExceeded', size, max },
  )
}
