import type { NoteSigner } from '../../audit/checkpoint.ts'

/** The identity of an installation's log: the name in its checkpoints and the key that signs them. */
export type LogIdentity = Readonly<{ logId: string; signer: NoteSigner }>
