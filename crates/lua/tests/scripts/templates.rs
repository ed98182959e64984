//! Templates of scripts: what KumoMTA's environment adds to Jinja.

use crate::support::load;

#[test]
fn templates_have_kumomtas_filters_and_functions() {
    load(
        "local function says(expected, template, context)
           local text = kumo.string.eval_template('t', template, context or {})
           assert(text == expected, template .. ': ' .. text)
         end
         local at = { at = 1795213000 }
         says('2026-11-20', \"{{ at|dateformat(format='[year]-[month]-[day]', tz='UTC') }}\", at)
         says('Nov 20 2026', \"{{ at|dateformat(tz='UTC') }}\", at)
         says('22:16:40', \"{{ at|timeformat(format='[hour]:[minute]:[second]', tz='UTC') }}\", at)
         says('22:16', \"{{ at|timeformat(format='short', tz='UTC') }}\", at)
         says('2026-11-20T22:16:40+00:00', \"{{ at|datetimeformat(format='iso', tz='UTC') }}\", at)
         says('1795213000', \"{{ at|datetimeformat(format='unix', tz='Europe/Vienna') }}\", at)
         says('20.11.2026 23:16', \"{{ at|datetimeformat(format='[day].[month].[year] [hour]:[minute]', tz='Europe/Vienna') }}\", at)
         says('true none [\"a\", 1] {\"k\":\"v\"}', '{{ yes }} {{ none }} {{ list }} {{ map|tojson }}',
              { yes = true, list = { 'a', 1 }, map = { k = 'v' } })
         says('2.0 MB 1.0 kB', '{{ 2000000|filesizeformat }} {{ 1000|filesizeformat }}')
         says('1.0 KiB', '{{ 1024|filesizeformat(true) }}')
         says('1 entry, 2 entries, 3 messages', \"1 {{ 'entr' }}{{ 1|pluralize('y', 'ies') }}, 2 entr{{ 2|pluralize('y', 'ies') }}, 3 message{{ 3|pluralize }}\")
         says(kumo.string.normalize_smtp_response('250 ok id 6ba7b810-9dad-11d1-80b4-00c04fd430c8'),
              \"{{ '250 ok id 6ba7b810-9dad-11d1-80b4-00c04fd430c8'|normalize_smtp_response }}\")
         says('aba', \"{% set c = cycler(['a', 'b']) %}{{ c.next() }}{{ c.next() }}{{ c.next() }}\")
         says('x, y, z', \"{% set j = joiner(', ') %}{% for i in ['x', 'y', 'z'] %}{{ j() }}{{ i }}{% endfor %}\")
         local before = os.time()
         local now = tonumber(kumo.string.eval_template('t', '{{ now() }}', {}))
         assert(now >= before and now <= os.time() + 1, now)",
    );
}
