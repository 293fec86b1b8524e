import type { EventTranslator, Naming, Translation } from './translation.ts'

/** What comes from the upstream, in OpenAI's format. */
export type AnswerTranslator = Readonly<{
  whole(status: number, answer: Buffer): Buffer
  /** Whole events of a stream, as bytes; undefined if nothing is to be said yet. */
  take(events: Buffer): Buffer | undefined
  finish(): Buffer
}>

export function createAnswerTranslator(translation: Translation, naming: Naming): AnswerTranslator {
  let events: EventTranslator | undefined
  let rest = ''
  const decoder = new TextDecoder()
  const text = (chunks: readonly object[]): string =>
    chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')

  return {
    whole(status, answer) {
      const json = parsed(answer.toString('utf8'))
      if (status < 400) return Buffer.from(JSON.stringify(translation.toAnswer(json, naming)))
      const message = translation.toErrorMessage(json) ?? 'The provider refused the request.'
      return Buffer.from(JSON.stringify({ error: { message, type: typeOf(status), param: null, code: null } }))
    },
    take(bytes) {
      events ??= translation.toEvents(naming)
      const parts = (rest + decoder.decode(bytes, { stream: true })).split(/\r?\n\r?\n/)
      rest = parts.pop()!
      const said = parts.map((part) => text(events!.take(parsed(dataOf(part))))).join('')
      return said === '' ? undefined : Buffer.from(said)
    },
    finish: () => Buffer.from(`${text(events?.finish() ?? [])}data: [DONE]\n\n`),
  }
}

const dataOf = (event: string): string =>
  event
    .split(/\r?\n/)
    .filter((line) => line.startsWith('data:'))
    .map((line) => line.slice('data:'.length))
    .join('\n')

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const types: Readonly<Record<number, string>> = {
  400: 'invalid_request_error',
  401: 'authentication_error',
  403: 'permission_error',
  404: 'invalid_request_error',
  429: 'rate_limit_error',
}
const typeOf = (status: number): string => types[status] ?? 'server_error'
