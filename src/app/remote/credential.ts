import type { AppError } from '../../contract/app-error.ts'

/** The credential of a command for a remote server. */
export type Credential = Readonly<{
  /** The bearer token to send now; undefined if the server needs none from this caller. */
  token(): Promise<string | undefined>
  /** The server refused `token`: whether there is another one to send. */
  renew(refused: string | undefined): Promise<boolean>
  /** The message after the last refusal. */
  refusal(origin: string): AppError
}>
