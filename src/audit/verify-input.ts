import type { NoteVerifier } from './checkpoint.ts'

export type VerifyInput = Readonly<{
  chunks: AsyncIterable<Uint8Array>
  /** The verifier key the reader trusts, `name+hash+base64`. ERR_INVALID_INPUT is thrown when it is malformed. */
  key: string
  /**
   * A checkpoint that the reader saved earlier. It shows that the log still begins as it did then: without it, a server that
   * signs a shorter or different history cannot be told from an honest one.
   */
  knownCheckpoint?: string
  onProgress?: (progress: VerifyProgress) => void
}>

type VerifyProgress = Readonly<{ bytesRead: number; records: number; size: number }>

export type VerifyOptions = Omit<VerifyInput, 'chunks'> & Readonly<{ verifier: NoteVerifier }>
