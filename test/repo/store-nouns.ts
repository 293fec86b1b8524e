/**
 * A store of a domain has the domain's noun, in the singular: `task-store.ts` keeps `domains/tasks`. A domain may have further
 * stores, each with the noun of what it keeps. They stand here, with the domain.
 */
export const furtherStores: Readonly<Record<string, string>> = {
  activity: 'agents',
  'api-key': 'identity',
  assignment: 'gateways',
  'installation-request': 'mcp-servers',
  'optimization-rule': 'model-proxies',
  'provider-key': 'model-proxies',
  role: 'identity',
  'service-client': 'people',
  device: 'people',
  'sign-in': 'people',
  'virtual-key': 'model-proxies',
}

/** The stores that keep no domain's rows, and the folder whose port they implement. */
export const storesWithoutDomain: Readonly<Record<string, string>> = {
  'forwarded-answer': 'contract',
  log: 'audit',
  'mcp-session': 'contract',
  run: 'engine',
  'task-directory': 'contract',
}
