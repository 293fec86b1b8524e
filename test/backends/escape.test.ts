import { openNamespacesBackend, openUserBackend } from '../support/namespaces-backend.ts'
import { describeEscapes } from './escape-suite.ts'

describeEscapes('escapes, with the privileges that the tests have', () => openNamespacesBackend())
describeEscapes('escapes, as an ordinary user', () => openUserBackend({ subordinateIds: false }))
