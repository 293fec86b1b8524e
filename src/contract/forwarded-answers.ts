import type { TenantId } from './principal.ts'

/** `sender` is one request of a client: another may follow under the same key. */
export type SentAnswer = Readonly<{ keyHash: string; sender: string; answer: string }>

/** The state of an answer. `notices` are the latest messages before the outcome. */
type PassedAnswer = Readonly<{ takenAtMs: number | null; notices: string | null; outcome: string | null }>

/**
 * Answers of clients that reached another process than the one that asked, if several processes share a store. A row goes from
 * the process that received the answer to the one that waits, and comes back with the outcome. The key is a digest of a value
 * that only the client has.
 */
export type ForwardedAnswers = Readonly<{
  /** False if an answer is in progress under this key. Rows that no process takes are removed after a while. */
  put(tenant: TenantId, sent: SentAnswer, atMs: number): Promise<boolean>
  /** Takes the answer under the key, if no other process has taken it. */
  take(tenant: TenantId, keyHash: string, atMs: number): Promise<string | undefined>
  /** Records that the process that took the answer still works on it. False if the sender has disconnected. */
  touch(tenant: TenantId, keyHash: string, atMs: number): Promise<boolean>
  /** Writes notices before the outcome, and replaces earlier ones. */
  tell(tenant: TenantId, keyHash: string, notices: string): Promise<void>
  /** The outcome, with the last notices. */
  finish(tenant: TenantId, keyHash: string, outcome: string, notices: string | null): Promise<void>
  /** The state of the answer of this sender; undefined if there is none. */
  find(tenant: TenantId, keyHash: string, sender: string): Promise<PassedAnswer | undefined>
  remove(tenant: TenantId, keyHash: string, sender: string): Promise<void>
}>
