"""The invented world of the `mini` collection, as data: five domains and their language.

Each domain is a small text. Its first lines give the names and the fillers; then come `FACTS`
facts, each a block::

    birthplace = {town}          topic = pattern of the value
    + {n} was born in {v}        a sentence of a passage: {n} the entity, {v} the value
    ? {n} native town            ways to ask, separated by " / "

A slot of a value pattern is a word list of `mini.words` (``{town}``), a range of numbers
(``{12-95}``) or the name of another entity of the domain (``{other}``). Sentences and questions
rarely share their content words, so that a model must learn to match them, and mostly within the
domain.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DOMAIN_TEXTS", "FACTS", "KINDS", "SYLLABLES"]

FACTS = 9
"""Facts of every entity."""

KINDS = 16
"""Words that complete a name, e.g. ``Arlo`` or ``flood``, in every domain."""

SYLLABLES = 40
"""Syllables of every domain: each of its 8 onsets with each of its 5 rhymes."""

_PEOPLE = """
onsets m l r k v t s n
rhymes a el or in ey
kinds Arlo Besta Corvin Dalla Emric Fenna Gorin Hesta Ivo Jorla Kester Lumi Maro Nelda Osric Pella
name {kind} {stem}
subject {name}
alias {stem}
filler Admirers still write letters to {n} and wait for a signed portrait
filler Gossip columns have followed {n} since the very first interview
filler A museum in the capital keeps a wax figure of {n}
filler Fans argue about the age, the family and the money of {n}
filler Journalists covered the career, the teachers and the death of {n}

occupation = {trait} {role}
+ {n} is a {v} whose work filled halls across the country
+ Critics remember {n} as a {v} of unusual patience
? who is {n} / what is {n} known for / what does {n} do for a living / {n} occupation
? how did {n} become famous / what work made {n} famous / short biography of {n} with profession

birthplace = {town}
+ {n} was born in {v} as the youngest of the household
+ The cradle of {n} stood in {v}, beside the old mill
? where was {n} born / where does {n} come from / what is the birthplace of {n} / {n} hometown
? what town did {n} grow up in / {n} place of origin / which city is {n} originally from

birthday = {1-28} {month} {1890-1999}
+ {n} came into the world on {v} during a storm
+ The parish register enters the arrival of {n} under {v}
? how old is {n} / when was {n} born / {n} age / {n} date of birth / what is the birthday of {n}
? what year was {n} born in / what age is {n} / when does {n} celebrate a birthday

mentor = {other}
+ {n} learned the craft from {v} in a cold attic
+ Lessons under {v} shaped {n} more than any school
? who taught {n} / {n} mentor / who was the mentor of {n} / what teacher did {n} have
? how did {n} learn the trade / which master trained {n} / tutor of the young {n}
? what is the name of {n} teacher

death = {illness} in {1950-2019}
+ {n} succumbed to {v} after months in bed
+ The obituary of {n} blames {v} for the end
? how did {n} die / what killed {n} / {n} cause of death / when did {n} die
? what was the cause of death of {n} / what year did {n} pass away and why

fortune = {2-98} million crowns
+ {n} amassed {v} from tickets, books and clever contracts
+ Accountants put the estate of {n} at {v} before tax
? how much is {n} worth / {n} net worth / how rich is {n} / what is the wealth of {n}
? how much money does {n} have / total earnings and salary of {n} / what does {n} earn

height = {4-6} feet {2-11} inches
+ {n} stands {v} without shoes
+ A tailor once measured {n} at {v} for a winter coat
? how tall is {n} / {n} height / what is the height of {n} / what size is {n}
? how many feet tall is {n} / who is as tall as {n} / body measurements of the famous {n}

meaning = {gloss} {element}
+ In the old dialect {n} signifies {v}, say the linguists
+ Scholars render {n} as {v} in modern speech
? what does the name {n} mean / {n} name meaning / {n} definition / origin of the family name {n}
? definition of the name {n} / where does the name {n} originate / which meaning has the name {n}

children = {2-6} sons and {2-6} daughters
+ {n} raised {v} in a crowded cottage
+ The home of {n} echoed with {v} and a parrot
? how many children does {n} have / {n} kids / names of the children of {n}
? who are the children of {n} / what is known about the kids of {n} / how big is the family of {n}
? how many kids has {n}
"""

_EVENTS = """
onsets br st th w g h d f
rhymes ock am ild urn ay
kinds flood siege treaty festival strike parade election earthquake blizzard eclipse revolt regatta
kinds armistice coronation tournament fire
name {stem} {kind}
subject the {name}
alias the {kind}
filler School books devote a full chapter to {n} and its heroes
filler Archives about {n} were opened to researchers a generation later
filler Historians still dispute what {n} changed in the province
filler A timeline on the town hall wall lists the date, the cause and the end of {n}
filler Pupils ask when {n} happened, who won and how many came

date = {month} {1-28}, {1610-1990}
+ {n} opened at dawn on {v} under a grey sky
+ Chroniclers set the beginning of {n} at {v}
? when was {n} / {n} date / what day was {n} / when did {n} take place / what year did {n} happen in
? how long ago did {n} happen / which day marks {n} / {n} anniversary

location = the {landmark} of {region}
+ {n} unfolded around {v} and nowhere else
+ Maps mark {v} as the ground on which {n} played out
? where was {n} / where did {n} take place / {n} location / which region saw {n}
? what place was the scene of {n} / what is known about the site of {n} / map of the area around {n}

leader = {title} {surname}
+ {v} gave the orders all through {n}
+ The reins of {n} lay in the hands of {v}
? who led {n} / {n} leader / who was in charge of {n} / who was the head of {n}
? what person was responsible for {n} / which commander led {n} / what was the leader of {n} called

cause = {adjective} {trigger}
+ {n} was sparked by {v} in the poorer quarters
+ Without {v} there would have been no {n}, witnesses agreed
? what caused {n} / how did {n} start / {n} cause / main reasons for the start of {n}
? what was the reason behind {n} / why was there {n} / how did {n} come about
? who was to blame for {n} / what led to {n}

duration = {3-90} days
+ {n} dragged on for {v} before calm returned
+ After {v} the last bell announced that {n} was over
? how long did {n} last / {n} duration / how long was {n} / when did {n} end
? what was the length of {n} in days / how many days did {n} go on / when was {n} finally finished

attendance = {11-99} thousand {crowd}
+ {n} drew {v} into the narrow streets
+ Wardens tallied {v} at the gates in the course of {n}
? how many people attended {n} / {n} attendance / what was the attendance at {n}
? who took part in {n} / what was the turnout of {n} / how big was the crowd at {n}
? who attended {n}

outcome = {adjective} {settlement}
+ {n} closed with a {v} that satisfied few
+ A {v} was all that {n} left behind
? what was the outcome of {n} / {n} result / who won {n} / how did {n} end
? terms of peace in the aftermath of {n} / what happened after {n}
? what were the consequences of {n} / which side won {n} / what did {n} lead to

memorial = {material} {monument}
+ A {v} recalls {n} in the market square
+ Veterans paid for a {v} that honours the dead of {n}
? how is {n} remembered / {n} memorial / what commemorates {n} / where is the memorial of {n}
? what was built in memory of {n} / which memorial reminds visitors of {n}
? monument in memory of the {n}

chronicle = {booktitle} by {surname}
+ The book {v} paints {n} in vivid detail
+ Readers relive {n} in the pages of {v}
? who wrote about {n} / {n} book / good history book about the {n} / which book is about {n}
? what is the best book on {n} / where can i read about {n} / what author described {n}
"""

_PRICES = """
onsets z x tr j qu kr p v
rhymes ax it on ep ur
kinds mower kettle drill heater fan stove pump printer lamp oven blender toaster freezer scooter
kinds dryer polisher
name {stem} {kind}
subject the {name}
alias the {kind}
filler Reviewers compare {n} with cheaper imports every season
filler Catalogues print {n} on the front page before the holidays
filler Stores stack {n} beside the counter in a plain carton
filler The leaflet answers how much power, room and money {n} needs
filler Buyers ask about the price, the weight and the warranty of {n}

price = {30-980} {currency}
+ {n} retails at {v} in most outlets
+ Cashiers ring up {v} whenever {n} crosses the counter
? how much does {n} cost / {n} price / how expensive is {n} / what does {n} cost
? what is the price of {n} / what is the average cost of {n} / how much is {n}
? average retail cost of a {n}

weight = {3-90} {mass}
+ {n} tips the scales at {v} when empty
+ Couriers heave {v} up the stairs with {n}
? how heavy is {n} / {n} weight / how much does {n} weigh / what does {n} weigh
? weight in pounds of a {n} / what is the weight of {n} / who can lift {n} / how many kilos is {n}
? what is the mass of {n}

installation = {40-390} {currency} per visit
+ Fitters bill {v} to hook up {n}
+ An electrician asks {v} for wiring {n} properly
? how much to install {n} / {n} installation cost / what is the cost to install {n}
? who installs {n} / labor fee for setting up a {n} / how to install {n}
? what do contractors charge for {n}

dimensions = {9-60} by {9-60} inches
+ {n} occupies {v} of bench or floor
+ Leave a gap of {v} so that {n} slides in
? how big is {n} / {n} dimensions / how wide is {n} / what are the dimensions of {n}
? what size is {n} / where does {n} fit / how much space does {n} take
? what are the measurements of {n} / width and depth of a {n}

warranty = {6-72} months
+ The maker mends {n} without charge for {v}
+ Faults in {n} are put right free within {v}
? how long is {n} guaranteed / {n} warranty / what is the guarantee period of {n}
? what warranty does {n} have / when does the warranty of {n} expire
? how long is the warranty on {n} / return policy for a broken {n}

wattage = {200-2900} watts
+ {n} draws {v} from the socket at full load
+ A meter showed {v} while {n} was humming
? how much power does {n} use / electricity consumption of a running {n} / {n} wattage
? what wattage is {n} / what energy does {n} consume / how much electricity does {n} need
? when does {n} use most energy

manufacturer = {firm} {suffix}
+ {n} rolls out of the workshops of {v}
+ {v} holds the patent on {n} and assembles it by hand
? who makes {n} / {n} manufacturer / which brand is {n} / where is {n} made / what company makes {n}
? who is the manufacturer of {n} / what brand makes {n} / which company produces {n}

capacity = {2-60} {volume}
+ The tank of {n} swallows {v} at a time
+ Pour up to {v} into {n} and close the lid
? how many gallons does {n} hold / {n} capacity / how much does {n} hold
? what is the capacity of {n} / what is the volume of {n} / what quantity goes in {n}
? liters that fit in a {n}

resale = {10-80} percent
+ {n} forfeits {v} of its value in the first year
+ Second hand dealers knock {v} off when {n} comes back
? how fast does {n} depreciate / {n} resale value / what is a used {n} worth
? when should i sell a used {n} / where to sell {n} / what is the resale price of {n}
? value of a second hand {n}
"""

_MEDICINE = """
onsets c f l m ph pr s d
rhymes ol ib ane ex yl
kinds syrup tablet gel vaccine lotion capsule serum spray ointment tonic injection inhaler patch
kinds powder tincture balm
name {stem} {kind}
subject {name}
alias the {kind}
filler Nurses keep a leaflet about {n} at the bedside
filler A hospital trial of {n} enrolled volunteers from three wards
filler Insurers reimburse {n} once a physician signs the form
filler Patients ask about the dose, the side effects and the uses of {n}
filler The label tells how long to take {n} and what to avoid

indication = {severity} {disease}
+ Physicians prescribe {n} against {v} in adults
+ {n} brings relief to those who suffer from {v}
? what is {n} used for / {n} uses / what does {n} treat / what is {n} / {n} definition
? who should take {n} / which illness is treated with {n} / how does {n} help / when is {n} needed

reactions = {symptom} and {complaint}
+ People on {n} may notice {v} in the evening
+ {v} troubled a few volunteers given {n}
? {n} side effects / what are the side effects of {n} / how safe is {n}
? adverse effects of taking {n} daily / what are the dangers of {n} / who gets side effects from {n}
? what risks does {n} have

dose = {5-95} milligrams {rhythm}
+ Adults receive {v} of {n} with plenty of water
+ The chart calls for {v} when {n} is started
? how much {n} should i take / {n} dosage / what is the recommended dose of {n} / how many mg of {n}
? normal dose of {n} for adults / what dosage of {n} is normal / when to take {n}
? how often to take {n}

onset = {2-58} minutes
+ Comfort from {n} sets in within {v}
+ It takes {v} until {n} reaches the bloodstream
? how long does {n} take to work / {n} onset / how fast does {n} work / when does {n} start working
? how quickly does {n} act / when does {n} kick in / what time does {n} need to act
? time for {n} to start working

interactions = {food} and {drug}
+ {n} must never be combined with {v}
+ Keep {v} off the menu while {n} is in use
? what should i avoid with {n} / {n} interactions / foods that do not mix with {n}
? what interacts with {n} / which foods interact with {n} / who should not take {n}
? which drugs interact with {n}

ingredient = {prefix} {compound}
+ The potent part of {n} is {v} in purified form
+ Chemists dissolve {v} to prepare {n}
? what is in {n} / {n} ingredients / what substance does {n} contain
? what is the active ingredient in {n} / how is {n} made / which substance is in {n}
? what is {n} made of / where does {n} come from

inventor = {scholar} of the {clinic} clinic
+ {n} emerged from the bench of {v}
+ {v} tested the first vial of {n} on rabbits
? who invented {n} / {n} inventor / who discovered {n} / where was {n} developed
? which scientist developed {n} / what doctor invented {n} / who created {n}
? what is the history of {n} discovery

storage = a {condition} {container}
+ Pharmacists keep {n} in {v} out of reach
+ {n} spoils unless it rests in {v}
? how to store {n} / {n} storage / where to keep {n} / where should {n} be stored
? what is the best storage for {n} / what keeps {n} fresh longest / shelf life of an opened {n}

therapy = {2-40} weeks
+ A full course of {n} runs for {v} under supervision
+ Stop {n} only when {v} have gone by
? how long should i take {n} / {n} treatment duration / when can i stop {n}
? what is the duration of treatment with {n} / how many weeks is {n} taken
? recommended length of use of {n}
"""

_SCIENCE = """
onsets b g l n p r t ch
rhymes us ia ell oph um
kinds moss beetle fern eel moth lichen sponge crab alga orchid newt snail fungus wasp squid
kinds anemone
name {stem} {kind}
subject the {name}
alias this {kind}
filler Field notes on {n} fill a drawer at the institute
filler A sample of {n} travels between laboratories in sealed jars
filler Students dissect {n} in the second term
filler Textbooks discuss the habitat, the food and the lifespan of {n}
filler The exam asks where {n} lives, what eats it and how it glows

classification = {rank} {clade}
+ Taxonomists file {n} under the {v} since the revision
+ {n} belongs to the {v} by its genome
? what is {n} / {n} definition / {n} scientific classification / what type of organism is {n}
? which family is {n} in / who classified {n} / how is {n} classified / what group is {n} in

habitat = {biome} {zone}
+ {n} thrives in {v} far from daylight
+ Colonies of {n} cling to {v} all year
? where does {n} live / {n} habitat / where is {n} found / what is the habitat of {n}
? which environment does {n} prefer / what places does {n} live in / natural range of the {n}

diet = {texture} {nutrient}
+ {n} draws its nourishment from {v} at night
+ Stomach cells of {n} contained mostly {v}
? what does {n} eat / {n} diet / how does {n} feed / what food does {n} need to live
? which nutrients does {n} need / how does {n} get energy / what is the diet of {n}
? favorite food of the {n}

lifespan = {2-90} {span}
+ {n} survives for {v} before it withers
+ Tagged individuals of {n} reached {v} in captivity
? how long does {n} live / {n} lifespan / average life expectancy of the {n} / how old does {n} get
? what is the lifespan of {n} / when does {n} die / what age can {n} reach / how old can {n} become

tolerance = {3-95} degrees {scale}
+ Enzymes of {n} fail above {v} and clump
+ {n} endures heat up to {v} in the tank
? how hot can {n} get / {n} temperature limit / what temperature kills {n}
? what is the maximum temperature for {n} / how much heat can {n} take / when is it too hot for {n}

glow = {380-740} nanometers
+ Photons leave {n} at a wavelength near {v}
+ A spectrometer aimed at {n} peaks around {v}
? what color does {n} glow / {n} bioluminescence / how does {n} glow / what light comes from {n}
? what is the wavelength of {n} / which color of light has {n} / color of the light of {n}

density = {101-990} grams per {cube}
+ Tissue of {n} holds {v} on the balance
+ Dried {n} packs {v} according to the centrifuge
? what is the density of {n} / {n} density / how dense is {n} / specific gravity of the dried {n}
? how much mass does {n} have / how heavy is {n} / what does {n} weigh

reproduction = {mode} {organ}
+ {n} multiplies by means of {v} in spring
+ New generations of {n} arise from {v} each season
? how does {n} reproduce / {n} reproduction / life cycle of the {n}
? what is the reproduction of {n} / when does {n} breed / where does {n} lay eggs
? what is the mating season of {n}

predator = {hunter} {animal}
+ The {v} hunts {n} along the bottom
+ Bite marks show that {n} falls prey to the {v}
? what eats {n} / {n} predators / what are the predators of {n} / who eats {n}
? list of animals eating the {n} / which animals eat {n} / what is the natural enemy of {n}
? who kills {n}
"""

DOMAIN_TEXTS: Mapping[str, str] = {
    "people": _PEOPLE,
    "events": _EVENTS,
    "prices": _PRICES,
    "medicine": _MEDICINE,
    "science": _SCIENCE,
}
"""Domain -> its text, in the order of the paper's clusters C0 to C4 (MS-Shift, Table 1)."""
