import { z } from 'zod'
import { authField, exchange, mount, oauth, userField, variable } from './config-parts.ts'

const text = (max: number, description: string) => z.string().max(max).describe(description)
const optionalText = (max: number, description: string) =>
  z.string().max(max).nullable().optional().describe(description)

/** How a server is run or reached. */
export const configFields = {
  serverType: z.enum(['local', 'remote', 'builtin']).optional().describe('Server type: local, remote, or builtin.'),
  serverUrl: optionalText(2_000, '[Remote] The URL of the remote MCP server.'),
  requiresAuth: z.boolean().optional().describe('[Remote] Whether the server requires authentication.'),
  authDescription: optionalText(4_000, '[Remote] How to set up authentication.'),
  authFields: z.array(authField).max(32).optional().describe('[Remote] Authentication field definitions.'),
  oauthConfig: oauth,
  enterpriseManagedConfig: exchange,
  command: text(1_024, '[Local] Command to run (for example npx, uvx, or node).').min(1).optional(),
  arguments: z.array(z.string().max(8_192)).max(256).optional().describe('[Local] Command-line arguments.'),
  environment: z.array(variable).max(128).optional().describe('[Local] Environment variables for the server process.'),
  envFrom: z
    .array(
      z.strictObject({
        type: z.enum(['secret', 'configMap']).describe('Import source type.'),
        name: z.string().min(1).max(253).describe('Secret or ConfigMap name.'),
        prefix: text(128, 'Optional environment variable prefix.').optional(),
      }),
    )
    .max(32)
    .optional()
    .describe('[Local] Import env vars from Kubernetes Secrets or ConfigMaps. Kept for a cluster.'),
  dockerImage: text(512, '[Local] Custom Docker image. Needs a container back end.').min(1).optional(),
  serviceAccount: text(253, '[Local] Kubernetes ServiceAccount name. Kept for a cluster.').optional(),
  transportType: z.enum(['stdio', 'streamable-http']).optional().describe('[Local] Transport type; stdio by default.'),
  httpPort: z.number().int().min(1).max(65_535).optional().describe('[Local] HTTP port for streamable-http transport.'),
  httpPath: z
    .string()
    .regex(/^\/[^\s?#]*$/)
    .max(1_024)
    .optional()
    .describe('[Local] HTTP path for streamable-http transport.'),
  nodePort: z.number().int().min(1).max(65_535).optional().describe('[Local] Kubernetes NodePort. Kept for a cluster.'),
  imagePullSecrets: z
    .array(
      z.strictObject({
        source: z.enum(['existing']).describe('Image pull secret source.'),
        name: z.string().min(1).max(253).describe('Existing Kubernetes secret name.'),
      }),
    )
    .max(16)
    .optional()
    .describe('[Local] Image pull secrets for private registries. Kept for a cluster.'),
  deploymentSpecYaml: text(
    65_536,
    '[Local] Custom Kubernetes deployment YAML override. Kept for a cluster.',
  ).optional(),
  installationCommand: text(8_192, '[Local] Command to install the MCP server package.').min(1).optional(),
  userConfig: z
    .record(z.string().min(1).max(128), userField)
    .refine((fields) => Object.keys(fields).length <= 64, 'has too many fields')
    .optional()
    .describe('User-configurable fields shown during installation.'),
  allowedDomains: z
    .array(z.string().min(1).max(253))
    .max(256)
    .optional()
    .describe(
      '[Local] Hosts that the server may reach, such as api.example.org. By default only the package registry if the command is npx, bunx, uvx or pipx, otherwise none.',
    ),
  mounts: z.array(mount).max(8).optional().describe('[Local] Folders of the host that the server sees.'),
}
