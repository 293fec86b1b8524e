import { z } from 'zod'
import { defineTool } from '../runtime/define-tool.ts'
import { workspaceFields, workspaceParams } from './workspace-params.ts'

export default defineTool({
  name: 'network_policy',
  toolset: 'workspaces',
  trust: { sends: true },
  title: 'Set the network policy',
  description:
    'Change what a workspace may reach and who may reach it: the internet, other workspaces, inbound TCP ports, and host names for HTTP and HTTPS. What is left out stays as it is. It takes effect at once; port forwards stay.',
  permission: 'workspace:update',
  tier: 'user',
  effect: 'external',
  idempotent: true,
  rate: 'default',
  skipJudge: false,
  input: z.strictObject({
    workspace_id: workspaceParams.workspaceId,
    allow_internet: z
      .boolean()
      .optional()
      .describe('Whether it may reach all of the internet; when not, still the hosts of allowed_domains.'),
    allow_inter_vm: z.boolean().optional().describe('Whether it and other workspaces may reach each other.'),
    allowed_ports: z
      .array(workspaceParams.port)
      .max(256)
      .optional()
      .describe('Inbound TCP ports that others may connect to.'),
    allowed_domains: workspaceParams.allowedDomains
      .optional()
      .describe('Hosts for HTTP and HTTPS without the rest of the internet, such as example.org or *.example.org.'),
  }),
  output: z.strictObject({
    workspace_id: z.string(),
    network_policy: z.strictObject(workspaceFields.policy),
    port_forwards: z.array(workspaceFields.forward),
    refused_connections: workspaceFields.refused,
  }),
  run: (input, { workspaces, call }) => workspaces.networkPolicy(call, input),
})
