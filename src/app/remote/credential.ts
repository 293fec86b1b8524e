import type { AppError } from '../../contract/app-error.ts'

/** What a command shows to a server elsewhere. */
export type Credential = Readonly<{
  /** The bearer token to show now; undefined for a server that asks this caller for none. */
  token(): Promise<string | undefined>
  /** The server refused `token`: whether there is another one to show. */
  renew(refused: string | undefined): Promise<boolean>
  /** What the user of the command is told after the last refusal. */
  refusal(origin: string): AppError
}>
