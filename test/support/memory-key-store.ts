import type { ApiKey, ApiKeyStore, RoleStore } from '../../src/domains/identity/ports.ts'

/** The port over an array, with the calls that reached it. */
export function createMemoryKeyStore() {
  let rows: ApiKey[] = []
  const prefixLookups: string[] = []
  const store: ApiKeyStore = {
    async insertKey(_, tenant, key) {
      rows.push({ ...key, tenant })
    },
    findKey: async (_, tenant, id) => rows.find((row) => row.tenant === tenant && row.id === id),
    findLiveKeyByName: async (_, tenant, name, nowMs) =>
      rows.find(
        (row) =>
          row.tenant === tenant &&
          row.name === name &&
          row.revokedAtMs === null &&
          (row.expiresAtMs === null || row.expiresAtMs > nowMs),
      ),
    listLiveKeysOfRole: async (_, tenant, role, nowMs) =>
      rows.filter(
        (row) =>
          row.tenant === tenant &&
          row.role === role &&
          row.revokedAtMs === null &&
          (row.expiresAtMs === null || row.expiresAtMs > nowMs),
      ),
    listKeys: (_, tenant) => {
      const listed = rows.filter((row) => row.tenant === tenant).reverse()
      return { rows: async (_after, limit) => listed.slice(0, limit), count: async () => listed.length }
    },
    listKeysOfUser: async (_, tenant, userId) =>
      rows.filter((row) => row.tenant === tenant && row.userId === userId && row.revokedAtMs === null),
    async revokeKey(_, tenant, id, atMs) {
      const isLive = (row: ApiKey) => row.tenant === tenant && row.id === id && row.revokedAtMs === null
      const did = rows.some(isLive)
      rows = rows.map((row) => (isLive(row) ? { ...row, revokedAtMs: atMs } : row))
      return did
    },
    async touchKey(_, tenant, id, atMs) {
      rows = rows.map((row) => (row.tenant === tenant && row.id === id ? { ...row, lastUsedAtMs: atMs } : row))
    },
    async findKeyByPrefix(_, prefix) {
      prefixLookups.push(prefix)
      return rows.find((row) => row.prefix === prefix)
    },
  }
  return { store, prefixLookups, rows: () => rows }
}

/** A tenant that made no roles. */
export const noRoles: Pick<RoleStore, 'findRole' | 'listRoles' | 'holdRoles'> = {
  findRole: async () => undefined,
  listRoles: async () => [],
  holdRoles: async () => {},
}
