import { AppError } from '../../contract/app-error.ts'
import type { Operation } from '../protocols/protocol.ts'
import { formats } from './create-judging.ts'
import { createAnswerJudge } from './events.ts'
import type { CallJudge, Fields, ModelCall } from './ports.ts'

/** The tool calls in the retained texts of a request and its answer. A text that is cut off, or not readable, has none. */
export async function callsInTexts(
  operation: string,
  texts: Readonly<{ request: string | null; answer: string | null }>,
): Promise<readonly ModelCall[]> {
  const format = formats[operation as Operation]
  if (format === undefined) return []
  const request = parsed(texts.request)
  const found = request === undefined ? [] : format.results(request).flatMap(({ call }) => call ?? [])
  if (texts.answer === null) return found
  const collecting: CallJudge = {
    refusalOf: (call) => void found.push(call),
    providerRan() {},
    wrote() {},
    wroteOpaque() {},
  }
  const answer = createAnswerJudge(format, collecting)
  const bytes = Buffer.from(texts.answer)
  try {
    if (parsed(texts.answer) === undefined) {
      await answer.take(bytes)
      await answer.finish()
    } else await answer.whole(bytes, true)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
  }
  return found
}

function parsed(text: string | null): Fields | undefined {
  try {
    const value: unknown = text === null ? undefined : JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Fields) : undefined
  } catch {
    return undefined
  }
}
