import { AppError } from '../../contract/app-error.ts'
import type { Logger } from '../../kernel/logger.ts'
import type { Random } from '../../kernel/random.ts'
import type { Exchange } from '../route-table.ts'
import { toHttpError } from '../to-http-error.ts'
import { noticePage, sendPage } from './page.ts'

/** Failures of a page are a page too. A browser would answer a challenge with a prompt of its own, so there is none. */
export const asPage =
  (deps: Readonly<{ logger: Logger; random: Random }>, serve: (exchange: Exchange) => Promise<void>) =>
  async (exchange: Exchange): Promise<void> => {
    try {
      await serve(exchange)
    } catch (error) {
      const { status, headers } = toHttpError(error, deps)
      const message = error instanceof AppError ? error.message : 'Something went wrong. Try again later.'
      sendPage(exchange.res, status, noticePage('This did not work', message), withoutChallenge(headers))
    }
  }

export const withoutChallenge = ({ 'www-authenticate': _, ...headers }: Readonly<Record<string, string>>) => headers
