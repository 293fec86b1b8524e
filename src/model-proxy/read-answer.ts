import type { AnswerFormat, PartialTokens } from './protocols/protocol.ts'
import { textBytesOf } from './text-bytes.ts'

/** What a whole answer says of itself. */
export type ReadAnswer = Readonly<{
  tokens: PartialTokens | undefined
  model: string | undefined
  isUnfinished: boolean
  /** The text in it. */
  textBytes(): number
}>

/** Undefined if it is not JSON. */
export function readAnswer(bytes: Buffer, format: AnswerFormat | undefined): ReadAnswer | undefined {
  if (format === undefined) return undefined
  try {
    const json: unknown = JSON.parse(bytes.toString('utf8'))
    return {
      tokens: format.readUsage(json),
      model: format.readModel(json),
      isUnfinished: format.isUnfinished?.(json) === true,
      textBytes: () => textBytesOf(bytes),
    }
  } catch {
    return undefined
  }
}
