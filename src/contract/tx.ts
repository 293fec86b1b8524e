/**
 * Opaque handles that a store issues; a domain only passes them on. A write transaction belongs to one tenant: while it is open,
 * no other writer of that tenant exists in any process.
 */
export type ReadTx = Readonly<{ readonly __tx: 'read' | 'write' }>
export type WriteTx = Readonly<{ readonly __tx: 'write' }>
