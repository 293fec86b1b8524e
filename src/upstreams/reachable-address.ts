import { AppError } from '../contract/app-error.ts'
import type { CheckedFetch } from '../web-client/checked-fetch.ts'

/** Throws, with the name of the field, if the address may not be reached or its host is unknown. */
export async function requireReachable(
  web: Pick<CheckedFetch, 'check'>,
  field: string,
  url: string,
  signal: AbortSignal,
): Promise<void> {
  try {
    await web.check(new URL(url), signal)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    const { code, message, details } = error
    const rule =
      code === 'ERR_WEB_FAILED'
        ? 'the name of the host cannot be resolved. Check its spelling, and whether the machine of Castellan can resolve it, then call again.'
        : message
    throw new AppError(code, `${field}: ${rule}`, { ...details, field }, { cause: error })
  }
}
