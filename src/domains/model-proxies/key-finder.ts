import { AppError } from '../../contract/app-error.ts'
import type { Call } from '../../contract/call.ts'
import type { TenantId } from '../../contract/principal.ts'
import { canModify, canSee, type Sharing } from '../../contract/sharing.ts'
import type { ReadTx } from '../../contract/tx.ts'
import { nearestFirst } from '../profiles/rules.ts'

type Reading = Pick<Call, 'read' | 'principal'>

type KeyFinderDeps<Key> = Readonly<{
  resource: 'llmProviderApiKey' | 'llmVirtualKey'
  store: Readonly<{
    findKey(tx: ReadTx, tenant: TenantId, id: string): Promise<Key | undefined>
    findNamed(tx: ReadTx, tenant: TenantId, name: string): Promise<readonly Key[]>
  }>
  noSuchKey(supplied: string): AppError
}>

/** Finds shared keys by id or name. A key that the caller cannot see is not found. */
export function createKeyFinder<Key extends Readonly<{ sharing: Sharing }>>({
  resource,
  store,
  noSuchKey,
}: KeyFinderDeps<Key>) {
  async function find({ read, principal }: Reading, idOrName: string): Promise<Key> {
    const sees = ({ sharing }: Key): boolean => canSee(principal, resource, sharing)
    const byId = await store.findKey(read, principal.tenant, idOrName)
    if (byId !== undefined && sees(byId)) return byId
    const [found] = nearestFirst((await store.findNamed(read, principal.tenant, idOrName)).filter(sees))
    if (found === undefined) throw noSuchKey(idOrName)
    return found
  }

  return {
    find,
    async findModifiable(call: Reading, idOrName: string): Promise<Key> {
      const key = await find(call, idOrName)
      if (canModify(call.principal, resource, key.sharing)) return key
      const permission = `${resource}:${key.sharing.scope === 'org' ? 'admin' : 'update'}` as const
      throw new AppError(
        'ERR_PERMISSION_DENIED',
        `key: this key has the scope ${key.sharing.scope}; changing it needs the permission '${permission}'`,
        { field: 'key', permission },
      )
    },
  }
}
