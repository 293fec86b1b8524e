import { ProtocolError, SdkError, SdkErrorCode } from '@modelcontextprotocol/client'

type Message = Readonly<Record<string, unknown>>

/**
 * The number that an id or a token says, which some servers send back as a text. Nobody has checked a message over standard streams: to
 * make a number of an object can throw.
 */
export const idOf = (said: unknown): number =>
  typeof said === 'number' || typeof said === 'string' ? Number(said) : NaN

/** The error in an answer; undefined if it has none, or says so with null. */
export function errorIn({ error }: Message): Error | undefined {
  if (error === undefined || error === null) return undefined
  const { code, message, data } = error as Message
  if (typeof code === 'number' && typeof message === 'string') return ProtocolError.fromError(code, message, data)
  return new SdkError(SdkErrorCode.InvalidResult, 'Invalid error: it has no code and message')
}
