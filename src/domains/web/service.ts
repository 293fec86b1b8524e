import { createFetch } from './fetch.ts'
import { createSearch, type SearchDeps } from './search.ts'

export type WebService = ReturnType<typeof createWebService>

/** The web as tools see it: pages, and searches for them. */
export const createWebService = (deps: SearchDeps) => ({ fetch: createFetch(deps), search: createSearch(deps) })
