/**
 * Handles that a store gives out and takes back; only the store knows what is inside. A domain passes them on.
 * A write unit belongs to one tenant: while it lives no other writer of that tenant exists in any process.
 */
export type ReadUnit = Readonly<{ readonly __unit: 'read' | 'write' }>
export type WriteUnit = Readonly<{ readonly __unit: 'write' }>
