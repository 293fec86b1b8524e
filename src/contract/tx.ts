/**
 * Handles that a store gives out and takes back; only the store knows what is inside. A domain passes them on.
 * A write transaction belongs to one tenant: while it lives no other writer of that tenant exists in any process.
 */
export type ReadTx = Readonly<{ readonly __tx: 'read' | 'write' }>
export type WriteTx = Readonly<{ readonly __tx: 'write' }>
