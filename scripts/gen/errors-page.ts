import { type ErrorKind, errorCodes, type RetryAdvice } from '../../src/contract/error-codes.ts'
import { code, page, table } from './markdown.ts'

const kinds = {
  input: 'The caller can put it right.',
  'not-found': 'There is no such thing, or it is not the caller’s; the answer is the same.',
  denied: 'The caller may not.',
  conflict: 'The present state forbids it.',
  unavailable: 'It may work later, with the same call.',
  cancelled: 'The caller withdrew the call.',
  internal: 'A fault of the program.',
} as const satisfies Record<ErrorKind, string>

const retries = { never: 'not as it stands', 'after-fix': 'after a change', later: 'later' } as const satisfies Record<
  RetryAdvice,
  string
>

export const errorsPage = (): string =>
  page(
    '# Errors',
    'A failed call is answered with `isError: true` and `{"error":{"code","message","details"}}`; over HTTP with the status below. A code never changes its meaning and is never used again for something else.',
    table(
      ['code', 'kind', 'HTTP', 'retry', 'what to do'],
      Object.entries(errorCodes).map(([name, entry]) => [
        code(name),
        entry.kind,
        String(entry.httpStatus),
        retries[entry.retry],
        entry.nextStep,
      ]),
    ),
    '## Kinds',
    table(
      ['kind', 'meaning'],
      Object.entries(kinds).map(([kind, meaning]) => [kind, meaning]),
    ),
  )
