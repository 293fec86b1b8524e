import { eventData } from '../event-data.ts'
import { errorOf } from '../protocols/openai.ts'
import { WholeEvents } from '../whole-events.ts'
import type { EventTranslator, Naming, Translation } from './translation.ts'

/** The upstream's answer, in OpenAI's format. */
export type AnswerTranslator = Readonly<{
  whole(status: number, answer: Buffer): Buffer
  /** A part of a stream; undefined if there is nothing to send yet. */
  take(part: Buffer): Buffer | undefined
  finish(): Buffer
}>

export function createAnswerTranslator(translation: Translation, naming: Naming): AnswerTranslator {
  let events: EventTranslator | undefined
  const gathered = new WholeEvents()
  const text = (chunks: readonly object[]): string =>
    chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')

  function translated(bytes: Buffer | undefined): string {
    if (bytes === undefined) return ''
    events ??= translation.toEvents(naming)
    const parts = bytes.toString('utf8').split(/\r?\n\r?\n/)
    // Comments, which keep a connection alive, have no data.
    const said = parts.map(eventData).filter((data) => data !== undefined)
    return said.map((data) => text(events!.take(data))).join('')
  }

  return {
    whole(status, answer) {
      const json = parsed(answer.toString('utf8'))
      if (status < 400) return Buffer.from(JSON.stringify(translation.toAnswer(json, naming)))
      const message = translation.toErrorMessage(json) ?? 'The provider refused the request.'
      return Buffer.from(JSON.stringify(errorOf(status, message, null)))
    },
    take(part) {
      const said = translated(gathered.take(part))
      return said === '' ? undefined : Buffer.from(said)
    },
    /** Providers need not end their last event with a blank line, and clients read it all the same. */
    finish() {
      const last = translated(gathered.finish())
      return Buffer.from(`${last}${text(events?.finish() ?? [])}data: [DONE]\n\n`)
    },
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
