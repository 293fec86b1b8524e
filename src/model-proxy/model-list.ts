import { isGranted } from './grants.ts'
import type { Caller } from './ports.ts'

/** The models that the caller may use, named `provider:model`, in the format of OpenAI's list. */
export const modelList = (ids: readonly string[], caller: Caller): string =>
  JSON.stringify({
    object: 'list',
    data: ids
      .filter((id) => mayAsk(caller, id))
      .map((id) => ({ id, object: 'model', created: 0, owned_by: id.slice(0, id.indexOf(':')) })),
  })

function mayAsk(caller: Caller, id: string): boolean {
  const colon = id.indexOf(':')
  return isGranted(caller, id.slice(0, colon), id.slice(colon + 1))
}
