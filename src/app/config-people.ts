import { z } from 'zod'
import { roles } from '../contract/principal.ts'
import { hasUsablePort, portRule, rule, secret, wholeNumber } from './config-parts.ts'

const roleRule = rule(`one of ${roles.join(', ')}, or the name of a custom role of the organisation`)
const idRule = rule('1 to 32 lower-case letters, digits or "-"')
const issuerRule = rule('the https:// URL of the provider, without query; http:// only for a loopback address')
const secretRule = rule('env:NAME; a secret is never written into the configuration')
const textRule = rule('text that is not empty')
const domainRule = rule('a list of domains such as example.com; there are no wildcards')
const listRule = rule('a list of at most 16 identity providers with different ids')
const endpointsRule = rule('a list of at most 16 https:// addresses; http:// only for a loopback address')
const scopesRule = rule('a list of at most 16 OAuth scopes such as offline_access')
const createRule = rule('a list of at least one domain if new_users is create; otherwise anybody could get in')

const provider = z
  .strictObject(
    {
      id: z.string(idRule).regex(/^[a-z0-9][a-z0-9-]{0,31}$/, idRule),
      name: z.string(textRule).min(1, textRule).max(64, textRule),
      issuer: z.string(issuerRule).max(2_048, issuerRule).refine(isIssuer, issuerRule).refine(hasUsablePort, portRule),
      client_id: z.string(textRule).min(1, textRule).max(512, textRule),
      client_secret: z
        .string(secretRule)
        .regex(/^env:[A-Za-z_][A-Za-z0-9_]*$/, secretRule)
        .optional(),
      tenant: z
        .string(rule('the name of an organisation'))
        .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, rule('the name of an organisation'))
        .default('local'),
      new_users: z.enum(['invited', 'create'], rule('one of invited, create')).default('invited'),
      default_role: z
        .string(roleRule)
        .regex(/^[a-z][a-z0-9_-]{0,62}$/, roleRule)
        .default('member'),
      email_domains: z
        .array(z.string(domainRule).regex(/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/, domainRule), domainRule)
        .max(100, domainRule)
        .default([]),
      assume_email_verified: z.boolean(rule('true or false')).default(false),
      scopes: z
        .array(z.string(scopesRule).regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/, scopesRule), scopesRule)
        .max(16, scopesRule)
        .default([]),
      exchange_endpoints: z
        .array(z.string(endpointsRule).max(2_048, endpointsRule).refine(isIssuer, endpointsRule), endpointsRule)
        .max(16, endpointsRule)
        .default([]),
    },
    rule('an object'),
  )
  .refine(({ new_users, email_domains }) => new_users !== 'create' || email_domains.length > 0, {
    ...createRule,
    path: ['email_domains'],
  })

const smtpText = () => z.string(textRule).min(1, textRule).max(512, textRule).optional()
const smtp = z
  .strictObject(
    {
      host: smtpText().describe('Mail server for invitations. If it is not set, links are only printed.'),
      port: wholeNumber(587, 1, 65_535, 'Port of the mail server.'),
      user: smtpText().describe(
        'User name for the mail server. If it is not set, Castellan does not authenticate there.',
      ),
      password: smtpText().meta(secret).describe('Password of that user. Accepts `env:NAME`.'),
      from: z
        .string(rule('an e-mail address'))
        .regex(/^[^\s<>,;:"]{1,64}@[^\s<>,;:"]{1,255}$/, rule('an e-mail address'))
        .optional()
        .describe('Address that mails come from.'),
      tls: z
        .enum(['starttls', 'implicit', 'none'], rule('one of starttls, implicit, none'))
        .default('starttls')
        .describe(
          '`starttls` switches to TLS after connecting and requires it, `implicit` uses TLS from the start (port 465), `none` is for a server on this machine.',
        ),
    },
    rule('an object'),
  )
  .prefault({})
  .describe('Mail, for invitations.')

/** How people sign in, besides their password. */
export const peopleFields = {
  smtp,
  oidc_providers: z
    .array(provider, listRule)
    .max(16, listRule)
    .refine((entries) => new Set(entries.map(({ id }) => id)).size === entries.length, listRule)
    .default([])
    .describe(
      'OpenID Connect providers that people sign in with. Each: `id`, `name` (on the button), `issuer`, `client_id`, `client_secret` as `env:NAME`, `tenant` (the organisation of its people, `local`), `new_users` (`invited` admits users and people with an open invitation, `create` everybody with an address in `email_domains`), `default_role` (role of people who are created: `member`, another built-in role or a custom role of the organisation), `email_domains` (people with other addresses are refused; an empty list allows all), `assume_email_verified` (for a provider that verifies every e-mail address but does not say so; an address that the provider reports as not verified is still refused), `scopes` (requested in addition to `openid email profile`; add `offline_access` for tokens that can be renewed) and `exchange_endpoints` (token endpoints where the tokens of people may be exchanged for tokens of MCP servers; if there is one, tokens are stored, encrypted, while the session lasts). Register `/auth/callback/ID` of this server at the provider.',
    ),
}

/** Tokens and keys of the provider come from there, so it must use TLS, unless it is on this machine. */
function isIssuer(text: string): boolean {
  const url = URL.parse(text)
  if (url === null || url.search !== '' || url.hash !== '' || url.username !== '') return false
  return (
    url.protocol === 'https:' ||
    (url.protocol === 'http:' && /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url.hostname))
  )
}
