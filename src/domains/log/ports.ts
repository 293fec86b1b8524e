import type { NoteSigner } from '../../audit/checkpoint.ts'

/** What makes the log of one installation its own: the name in its checkpoints and the key that signs them. */
export type LogIdentity = Readonly<{ logId: string; signer: NoteSigner }>
