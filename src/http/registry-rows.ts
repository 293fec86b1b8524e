import { numbers, texts } from './rest-arguments.ts'
import type { RestRow } from './rest-table.ts'

const tool = 'list_registry_servers'

/** The catalogue at the addresses of the MCP registry, for clients that read registries. */
export const registryRows: readonly RestRow[] = [
  {
    method: 'GET',
    path: '/v0.1/servers',
    tool,
    args: ({ query }) => ({
      ...texts(query, 'cursor', 'search', 'updated_since', 'version'),
      ...numbers(query, 'limit'),
    }),
  },
  {
    method: 'GET',
    path: '/v0.1/servers/{name}/versions',
    tool,
    args: ({ params }) => ({ name: params['name'] }),
  },
  {
    method: 'GET',
    path: '/v0.1/servers/{name}/versions/{version}',
    tool,
    args: ({ params }) => ({ name: params['name'], version: params['version'] }),
    shape: ({ servers }) => (servers as readonly unknown[])[0],
  },
]
